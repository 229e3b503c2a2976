// Tests of the packing: `node --test`, from this folder.

import assert from "node:assert/strict";
import { test } from "node:test";
import { pack, unpack } from "./tidegate-columns.mjs";
import { decode, encode } from "./utf8.mjs";

const column = (data, offsets = null, validity = null) => ({
  data: Uint8Array.from(data),
  offsets: offsets && Uint8Array.from(offsets),
  validity: validity && Uint8Array.from(validity),
});

test("every type comes back as it went", () => {
  const cases = {
    bool: [true, null, false, true, true, false, false, true, null, true],
    int8: [-128, null, 127],
    int16: [-(2 ** 15), 2 ** 15 - 1],
    int32: [-(2 ** 31), null, 2 ** 31 - 1],
    int64: [-(2n ** 63n), null, 2n ** 63n - 1n],
    uint8: [0, 255, null],
    uint16: [2 ** 16 - 1],
    uint32: [2 ** 32 - 1],
    uint64: [null, 2n ** 64n - 1n],
    float32: [0.5, null, Infinity],
    float64: [0.1, null, -1e308],
    string: ["", null, "über", "日本", "🌊"],
    binary: [new Uint8Array(0), null, Uint8Array.of(0, 255)],
    date: [-1, null, 20000],
    time: [86399999999n],
    "timestamp_us(Europe/Berlin)": [-(2n ** 63n), null, 0n],
  };
  for (const [dataType, values] of Object.entries(cases)) {
    assert.deepEqual(unpack(dataType, pack(dataType, values), values.length), values, dataType);
    assert.deepEqual(unpack(dataType, pack(dataType, []), 0), [], dataType);
  }
});

test("the buffers are those of the border", () => {
  assert.deepEqual(pack("int32", [1, null, -2]), column([1, 0, 0, 0, 0, 0, 0, 0, 254, 255, 255, 255], null, [5]));
  const offsets = [0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0];
  assert.deepEqual(pack("string", ["a", null, "ü"]), column([97, 0xc3, 0xbc], offsets, [5]));
  assert.deepEqual(pack("bool", new Array(9).fill(true)), column([255, 1]));
});

test("a column may begin anywhere in its buffer", () => {
  const data = Uint8Array.of(9, 9, 9, 1, 0, 0, 0).subarray(3);
  assert.deepEqual(unpack("int32", { data, offsets: null, validity: null }, 1), [1]);
});

test("a value that does not fit is named with its row", () => {
  const cases = [
    ["int64", 2n ** 63n],
    ["int64", 1],
    ["uint8", -1],
    ["int8", 1.5],
    ["int32", "1"],
    ["float64", "1"],
    ["string", 1],
    ["binary", "text"],
    ["bool", 1],
    ["int8", undefined],
  ];
  for (const [dataType, value] of cases) {
    assert.throws(() => pack(dataType, [null, null, value]), { message: new RegExp(`of row 2 is no .${dataType}.`) });
  }
});

test("buffers that do not fit are refused", () => {
  const cases = [
    ["int64", column(new Array(15).fill(0)), "take 16 bytes, and there are 15"],
    ["bool", column([]), "of data"],
    ["int8", column([0, 0], null, []), "of validity"],
    ["string", column([97, 98]), "3 offsets"],
    ["string", column([97, 98], [0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0]), "go back"],
    ["string", column([97, 98], [0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0]), "beyond its 2 bytes"],
    ["string", column([97, 98], [255, 255, 255, 255, 1, 0, 0, 0, 2, 0, 0, 0]), "go back"],
  ];
  for (const [dataType, buffers, words] of cases) {
    assert.throws(() => unpack(dataType, buffers, 2), { message: new RegExp(words) });
  }
});

test("what stands at a null is not read", () => {
  assert.deepEqual(unpack("string", column([255, 254], [0, 0, 0, 0, 2, 0, 0, 0], [0]), 1), [null]);
});

test("a type that only the host carries is refused", () => {
  for (const dataType of ["decimal(38,2)", "opaque", "toString"]) {
    assert.throws(() => pack(dataType, []), /can be carried by the host/);
  }
});

test("UTF-8 is that of the platform, at every border between lengths", () => {
  const codes = [0, 0x7f, 0x80, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x10ffff];
  const text = codes.map((code) => String.fromCodePoint(code)).join("");
  assert.deepEqual(encode(text), new TextEncoder().encode(text));
  assert.equal(decode(encode(text)), text);
  assert.deepEqual(encode("a\ud800b"), new TextEncoder().encode("a\ud800b"));
});
