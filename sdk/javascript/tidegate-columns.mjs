// Rows of a Tidegate batch as JavaScript arrays, and back.
//
// A transform on raw columns (world `transform-columns-plugin`) is handed each column as bytes: values one after the other, a
// bitmap of what is no null, and for text the offsets at which values begin. `unpack` makes an array of such a column, with `null`
// at nulls, and `pack` makes the column of an array. Nothing here needs the component's bindings, so it is tested with plain Node;
// see `tidegate-columns.test.mjs`.
//
// | type | JavaScript |
// |---|---|
// | `bool` | boolean |
// | `int8` to `int32`, `uint8` to `uint32`, `date` (days since 1970) | number |
// | `int64`, `uint64`, `time`, `timestamp_s` to `timestamp_ns` | BigInt: a number would lose digits beyond 2 to the 53rd |
// | `float32`, `float64` | number |
// | `string`, `binary` | string, Uint8Array |
//
// A `decimal` can be carried by the host and not be read here.

import { decode, encode } from "./utf8.mjs";

// For each type of fixed width: its bytes, the part of DataView's methods that names it, and its range if it is an integer.
const small = (width, method, least, most) => ({ width, method, least, most });
const long = { width: 8, method: "BigInt64", least: -(2n ** 63n), most: 2n ** 63n - 1n };
const FIXED = {
  int8: small(1, "Int8", -128, 127),
  int16: small(2, "Int16", -32768, 32767),
  int32: small(4, "Int32", -2147483648, 2147483647),
  int64: long,
  uint8: small(1, "Uint8", 0, 255),
  uint16: small(2, "Uint16", 0, 65535),
  uint32: small(4, "Uint32", 0, 4294967295),
  uint64: { width: 8, method: "BigUint64", least: 0n, most: 2n ** 64n - 1n },
  float32: { width: 4, method: "Float32" },
  float64: { width: 8, method: "Float64" },
  date: small(4, "Int32", -2147483648, 2147483647),
  time: long,
  timestamp_s: long,
  timestamp_ms: long,
  timestamp_us: long,
  timestamp_ns: long,
};

// Offsets are signed numbers of 32 bits for the host.
const MOST_BYTES = 2 ** 31 - 1;

/** The values of a column of `rows` rows; `null` where there is a null. Throws a RangeError if its buffers do not fit. */
export function unpack(dataType, column, rows) {
  const kind = kindOf(dataType);
  const isPresent = column.validity == null ? () => true : bits(column.validity, rows, "validity");
  const valueAt = reader(kind, dataType, column, rows);
  const values = new Array(rows);
  for (let row = 0; row < rows; row++) {
    // What stands at a null is arbitrary, and need not be text.
    values[row] = isPresent(row) ? valueAt(row) : null;
  }
  return values;
}

/** The column with these values; `null` makes a null. Throws a RangeError, naming the row, if a value is not of the type. */
export function pack(dataType, values) {
  const kind = kindOf(dataType);
  values.forEach((value, row) => {
    if (value !== null && !fits(kind, value)) {
      throw new RangeError(`the value \`${value}\` of row ${row} is no \`${dataType}\`, or outside its range`);
    }
  });
  const validity = values.includes(null) ? bitmap(values, (value) => value !== null) : null;
  if (kind === "bool") {
    return { data: bitmap(values, (value) => value === true), offsets: null, validity };
  }
  if (kind === "string" || kind === "binary") {
    return { ...joined(kind, values), validity };
  }
  const { width, method } = FIXED[kind];
  const view = new DataView(new ArrayBuffer(width * values.length));
  const set = view[`set${method}`].bind(view);
  values.forEach((value, row) => {
    if (value !== null) {
      set(row * width, value, true);
    }
  });
  return { data: new Uint8Array(view.buffer), offsets: null, validity };
}

/** A type's name without its parameters, which change nothing about the layout. */
function kindOf(dataType) {
  const kind = dataType.split("(")[0];
  if (!Object.hasOwn(FIXED, kind) && !["bool", "string", "binary"].includes(kind)) {
    throw new RangeError(`a column of type \`${dataType}\` can be carried by the host, and not be read or made here`);
  }
  return kind;
}

/** Whether a value is of a type. */
function fits(kind, value) {
  switch (kind) {
    case "bool":
      return typeof value === "boolean";
    case "string":
      return typeof value === "string";
    case "binary":
      return value instanceof Uint8Array;
    case "float32":
    case "float64":
      return typeof value === "number";
  }
  const { width, least, most } = FIXED[kind];
  const isInteger = width === 8 ? typeof value === "bigint" : Number.isInteger(value);
  return isInteger && least <= value && value <= most;
}

/** A function from a row to its value. */
function reader(kind, dataType, column, rows) {
  if (kind === "bool") {
    return bits(column.data, rows, "data");
  }
  if (kind === "string" || kind === "binary") {
    const offsets = offsetsOf(kind, column, rows);
    const slice = (row) => column.data.subarray(offsets[row], offsets[row + 1]);
    return kind === "binary" ? slice : (row) => decode(slice(row));
  }
  const { width, method } = FIXED[kind];
  if (column.data.length !== rows * width) {
    throw new RangeError(`${rows} rows of \`${dataType}\` take ${rows * width} bytes, and there are ${column.data.length}`);
  }
  const view = viewOf(column.data);
  const get = view[`get${method}`].bind(view);
  return (row) => get(row * width, true);
}

function viewOf(bytes) {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** A function from a row to its bit. */
function bits(bytes, rows, what) {
  if (bytes.length * 8 < rows) {
    throw new RangeError(`${rows} rows take ${Math.ceil(rows / 8)} bytes of ${what}, and there are ${bytes.length}`);
  }
  return (row) => ((bytes[row >> 3] >> (row & 7)) & 1) === 1;
}

/** One bit per value: what `isSet` says of it. */
function bitmap(values, isSet) {
  const bytes = new Uint8Array(Math.ceil(values.length / 8));
  values.forEach((value, row) => {
    if (isSet(value)) {
      bytes[row >> 3] |= 1 << (row & 7);
    }
  });
  return bytes;
}

/** The offsets of a column, checked. */
function offsetsOf(kind, column, rows) {
  if (column.offsets == null || column.offsets.length !== 4 * (rows + 1)) {
    throw new RangeError(`${rows} rows of \`${kind}\` take ${rows + 1} offsets of 4 bytes`);
  }
  const view = viewOf(column.offsets);
  const offsets = new Array(rows + 1);
  let before = 0;
  for (let at = 0; at <= rows; at++) {
    offsets[at] = view.getInt32(at * 4, true);
    if (offsets[at] < before || offsets[at] > column.data.length) {
      throw new RangeError(`the offsets of a \`${kind}\` column go back, or beyond its ${column.data.length} bytes`);
    }
    before = offsets[at];
  }
  return offsets;
}

/** Data and offsets of text or bytes. */
function joined(kind, values) {
  const none = new Uint8Array(0);
  const toBytes = kind === "binary" ? (value) => value : encode;
  const parts = values.map((value) => (value === null ? none : toBytes(value)));
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  if (length > MOST_BYTES) {
    throw new RangeError(
      `the values of a \`${kind}\` column take ${length} bytes, and ${MOST_BYTES} are the most; answer in several parts`,
    );
  }
  const data = new Uint8Array(length);
  const offsets = new DataView(new ArrayBuffer(4 * (parts.length + 1)));
  let end = 0;
  parts.forEach((part, row) => {
    data.set(part, end);
    end += part.length;
    offsets.setInt32(4 * (row + 1), end, true);
  });
  return { data, offsets: new Uint8Array(offsets.buffer) };
}
