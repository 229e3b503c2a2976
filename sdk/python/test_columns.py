"""Tests of the packing: `python3 -m unittest`, from this folder."""

import unittest

from tidegate_columns import Packed, pack, unpack


class Columns(unittest.TestCase):
    def test_every_type_comes_back_as_it_went(self):
        for data_type, values in {
            "bool": [True, None, False, True, True, False, False, True, None, True],
            "int8": [-128, None, 127],
            "int16": [-(2**15), 2**15 - 1],
            "int32": [-(2**31), None, 2**31 - 1],
            "int64": [-(2**63), None, 2**63 - 1],
            "uint8": [0, 255, None],
            "uint16": [2**16 - 1],
            "uint32": [2**32 - 1],
            "uint64": [None, 2**64 - 1],
            "float32": [0.5, None, float("inf")],
            "float64": [0.1, None, -1e308],
            "string": ["", None, "über", "日本", "🌊"],
            "binary": [b"", None, b"\x00\xff"],
            "date": [-1, None, 20_000],
            "time": [86_399_999_999],
            "timestamp_us(Europe/Berlin)": [-(2**63), None, 0],
        }.items():
            with self.subTest(data_type):
                self.assertEqual(unpack(data_type, pack(data_type, values), len(values)), values)
                self.assertEqual(unpack(data_type, pack(data_type, []), 0), [])

    def test_the_buffers_are_those_of_the_border(self):
        self.assertEqual(pack("int32", [1, None, -2]), Packed(b"\x01\0\0\0\0\0\0\0\xfe\xff\xff\xff", None, b"\x05"))
        self.assertEqual(pack("string", ["a", None, "ü"]), Packed(b"a\xc3\xbc", b"\0\0\0\0\x01\0\0\0\x01\0\0\0\x03\0\0\0", b"\x05"))
        self.assertEqual(pack("bool", [True] * 9), Packed(b"\xff\x01", None, None))

    def test_a_value_that_does_not_fit_is_named_with_its_row(self):
        for data_type, value in [
            ("int64", 2**63),
            ("uint8", -1),
            ("int8", 1.5),
            ("float64", "1"),
            ("float32", 1e300),
            ("string", b"bytes"),
            ("binary", "text"),
            ("bool", 1),
        ]:
            with self.subTest(data_type), self.assertRaisesRegex(ValueError, f"of row 2 is no `{data_type}`"):
                pack(data_type, [None, None, value])

    def test_buffers_that_do_not_fit_are_refused(self):
        for data_type, column, words in [
            ("int64", Packed(b"\0" * 15, None, None), "take 16 bytes, and there are 15"),
            ("bool", Packed(b"", None, None), "of data"),
            ("int8", Packed(b"\0\0", None, b""), "of validity"),
            ("string", Packed(b"ab", None, None), "3 offsets"),
            ("string", Packed(b"ab", b"\0\0\0\0\x02\0\0\0\x01\0\0\0", None), "go back"),
            ("string", Packed(b"ab", b"\0\0\0\0\x01\0\0\0\x03\0\0\0", None), "beyond its 2 bytes"),
            ("string", Packed(b"ab", b"\xff\xff\xff\xff\x01\0\0\0\x02\0\0\0", None), "go back"),
        ]:
            with self.subTest(data_type), self.assertRaisesRegex(ValueError, words):
                unpack(data_type, column, 2)

    def test_what_stands_at_a_null_is_not_read(self):
        self.assertEqual(unpack("string", Packed(b"\xff\xfe", b"\0\0\0\0\x02\0\0\0", b"\0"), 1), [None])

    def test_a_type_that_only_the_host_carries_is_refused(self):
        for data_type in ["decimal(38,2)", "opaque"]:
            with self.assertRaisesRegex(ValueError, "can be carried by the host"):
                pack(data_type, [])


if __name__ == "__main__":
    unittest.main()
