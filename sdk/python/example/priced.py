"""A whole plugin in Python: of `item` (string), `quantity` (int64) and `price` (float64) it makes `label`, `doubled` and `total`.

A null among what a value is made of makes it null. A row with a negative quantity, or one too large to be doubled, is bad: it
costs itself, and not its batch.
"""

import json

from componentize_py_types import Err
from tidegate_columns import pack, unpack
from wit_world import exports
from wit_world.exports.transform_columns import Column, Columns, Field, Plan, Processed
from wit_world.imports import types

READS = {"item": "string", "quantity": "int64", "price": "float64"}
MAKES = {"label": "string", "doubled": "int64", "total": "float64"}


def unit_of(config: str) -> str:
    """`config = { unit = "pcs" }` of the pipeline file, which arrives as JSON."""
    options = json.loads(config or "{}") or {}
    for name in options:
        if name != "unit":
            raise Err(types.Error_Config(f"there is no option `{name}`; the only one is `unit`"))
    unit = options.get("unit", "pcs")
    if not isinstance(unit, str):
        raise Err(types.Error_Config("`unit` must be text"))
    return unit


class TransformColumns(exports.TransformColumns):
    def describe(self) -> types.PluginInfo:
        schema = {"type": "object", "properties": {"unit": {"type": "string"}}, "additionalProperties": False}
        manifest = {"description": "Labels and totals of items"}
        return types.PluginInfo("priced", "1.0.0", json.dumps(schema), json.dumps(manifest))

    def bind(self, config: str, input: list) -> Plan:
        """Called while planning: which columns cross into the plugin, and what comes back. The host carries every other one."""
        unit_of(config)
        reads = []
        for name, data_type in READS.items():
            found = [at for at, field in enumerate(input) if (field.name, field.data_type) == (name, data_type)]
            if not found:
                raise Err(types.Error_Config(f"there is no column `{name}` of type `{data_type}`"))
            reads += found
        output = [Field(name, data_type, True) for name, data_type in MAKES.items()]
        return Plan(reads, None, output, types.Shape.ROWWISE, "")


class Processor:
    """One per task."""

    def __init__(self, unit: str):
        self.unit = unit

    @classmethod
    def open(cls, scope: types.Scope, input: list) -> "Processor":
        return cls(unit_of(scope.config))

    def process(self, input: Columns) -> Processed:
        """Called for every batch. The columns are those of `bind`'s `reads`, in its order."""
        read = [unpack(data_type, column, input.rows) for data_type, column in zip(READS.values(), input.columns)]
        made = []
        bad = []
        for row, (item, quantity, price) in enumerate(zip(*read)):
            if quantity is not None and not 0 <= quantity < 2**62:
                bad.append(types.RowError(row, "quantity", f"`{quantity}` is no quantity that can be doubled"))
                quantity = None
            known = quantity is not None
            label = f"{item}: {quantity} {self.unit}" if known and item is not None else None
            total = quantity * price if known and price is not None else None
            made.append((label, 2 * quantity if known else None, total))
        columns = zip(*made) if made else [()] * len(MAKES)
        columns = [Column(*pack(data_type, values)) for data_type, values in zip(MAKES.values(), columns)]
        return Processed([Columns(input.rows, columns)], bad, "")
