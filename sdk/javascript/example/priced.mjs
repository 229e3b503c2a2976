// A whole plugin in JavaScript: of `item` (string), `quantity` (int64) and `price` (float64) it makes `label`, `doubled` and `total`.
//
// A null among what a value is made of makes it null. A row with a negative quantity, or one too large to be doubled, is bad: it
// costs itself, and not its batch.

import { pack, unpack } from "../tidegate-columns.mjs";

const READS = { item: "string", quantity: "int64", price: "float64" };
const MAKES = { label: "string", doubled: "int64", total: "float64" };

/** What a function throws that answers with an error: the configuration is wrong, and the run ends. */
const wrong = (message) => ({ tag: "config", val: message });

/** `config = { unit = "pcs" }` of the pipeline file, which arrives as JSON. */
function unitOf(config) {
  const options = JSON.parse(config || "{}") ?? {};
  for (const name of Object.keys(options)) {
    if (name !== "unit") {
      throw wrong(`there is no option \`${name}\`; the only one is \`unit\``);
    }
  }
  const { unit = "pcs" } = options;
  if (typeof unit !== "string") {
    throw wrong("`unit` must be text");
  }
  return unit;
}

/** One per task. */
class Processor {
  constructor(unit) {
    this.unit = unit;
  }

  static open(scope, _input) {
    return new Processor(unitOf(scope.config));
  }

  /** Called for every batch. The columns are those of `bind`'s `reads`, in its order. */
  process({ rows, columns }) {
    const [items, quantities, prices] = Object.values(READS).map((dataType, at) => unpack(dataType, columns[at], rows));
    const made = { label: [], doubled: [], total: [] };
    const bad = [];
    for (let row = 0; row < rows; row++) {
      let quantity = quantities[row];
      if (quantity !== null && !(0n <= quantity && quantity < 2n ** 62n)) {
        bad.push({ row, column: "quantity", message: `\`${quantity}\` is no quantity that can be doubled` });
        quantity = null;
      }
      const known = quantity !== null;
      made.label.push(known && items[row] !== null ? `${items[row]}: ${quantity} ${this.unit}` : null);
      made.doubled.push(known ? 2n * quantity : null);
      made.total.push(known && prices[row] !== null ? Number(quantity) * prices[row] : null);
    }
    const answer = Object.entries(MAKES).map(([name, dataType]) => pack(dataType, made[name]));
    return { rows: [{ rows, columns: answer }], bad, extra: "" };
  }
}

export const transformColumns = {
  Processor,

  describe() {
    const schema = { type: "object", properties: { unit: { type: "string" } }, additionalProperties: false };
    const manifest = { description: "Labels and totals of items" };
    return { name: "priced", version: "1.0.0", configSchema: JSON.stringify(schema), manifest: JSON.stringify(manifest) };
  },

  /** Called while planning: which columns cross into the plugin, and what comes back. The host carries every other one. */
  bind(config, input) {
    unitOf(config);
    const reads = Object.entries(READS).map(([name, dataType]) => {
      const at = input.findIndex((field) => field.name === name && field.dataType === dataType);
      if (at < 0) {
        throw wrong(`there is no column \`${name}\` of type \`${dataType}\``);
      }
      return at;
    });
    const output = Object.entries(MAKES).map(([name, dataType]) => ({ name, dataType, nullable: true }));
    return { reads, carry: null, output, shape: "rowwise", extra: "" };
  },
};
