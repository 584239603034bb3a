#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the hand-made part of the corpus: python3 tests/fuzz/parsers/make_corpus.py. The names say what each input is."""
import pathlib
import struct

corpus = pathlib.Path(__file__).parent / "corpus"


def write(folder, name, data):
    path = corpus / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def with_header(json, data=b""):
    return struct.pack("<Q", len(json)) + json + data


def headers():
    base = b'{"t":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}}'
    narrow = (b'{"w.e5m2":{"dtype":"F8_E5M2","shape":[3],"data_offsets":[0,3]},'
              b'"w.e8m0":{"dtype":"F8_E8M0","shape":[2],"data_offsets":[3,5]},'
              b'"w.f4":{"dtype":"F4","shape":[2,8],"data_offsets":[5,13]},'
              b'"w.f6":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[13,16]},'
              b'"z.empty":{"dtype":"F32","shape":[0],"data_offsets":[16,16]},'
              b'"s.scalar":{"dtype":"F32","shape":[],"data_offsets":[16,20]}}')
    oid = b"4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393"
    yield "lfs_pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 4976698592\n" % oid
    yield "html", b"<!DOCTYPE html><html></html>"
    yield "json_text", b'{"error":"Unauthorized"}'
    yield "zip", bytes.fromhex("504b030400000808")
    yield "pickle_2", bytes.fromhex("80028a0a6cfc9c46f9206aa850192e80")
    yield "pickle_4", bytes.fromhex("800495000000000000")
    yield "gguf", b"GGUF" + struct.pack("<IQQ", 3, 2, 0)
    yield "base", with_header(base, bytes(16))
    yield "base_cut", with_header(base, bytes(14))
    yield "base_longer", with_header(base, bytes(19))
    yield "base_json", base
    yield "narrow", with_header(narrow, bytes(20))
    yield "narrow_json", narrow
    yield "metadata", with_header(b'{"__metadata__":{"k":"v"}}')
    yield "metadata_null", with_header(b'{"__metadata__":null,' + base[1:], bytes(16))
    yield "duplicate_json", b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\\u0061":' \
                            b'{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}'
    yield "overflow_json", b'{"a":{"dtype":"U8","shape":[9223372036854775807,2,0],"data_offsets":[0,0]}}'
    yield "deep_json", b'{"a":{"x":' + b"[" * 130 + b"]" * 130 + b"}}"
    yield "zeros", bytes(81)
    yield "too_large", struct.pack("<Q", 100_000_001) + b"{}"


def number(value):
    """As Input::number of fuzz_layout.cpp reads it; small ones take two bytes."""
    if value < 0x3c00:
        return bytes([value >> 8, value & 0xFF])
    return bytes([240]) + struct.pack("<Q", value)


def piece(shape, stored, source, length, wanted=None, scale=1.0):
    data = bytes([shape, stored]) + (b"" if wanted is None else bytes([wanted]))
    data += number(source) + number(length)
    return data + (b"" if wanted is None else struct.pack("<f", scale))


def layouts():
    files = number(15000) + number(9000) + number(100)
    u8, e4m3, bf16, f32 = 4, 7, 14, 17
    yield "copied", files + bytes([0]) + piece(0, u8, 0, 5000) + piece(2, u8, 4096, 4904) + piece(0x10, u8, 100, 7)
    yield "widened", files + bytes([0]) + piece(1, e4m3, 1, 3001, bf16) + piece(0x11, e4m3, 4000, 2000, f32, 0.5)
    yield "narrowed", files + bytes([1]) + piece(1, f32, 4, 8000, bf16) + piece(0, bf16, 8004, 100)
    yield "outside", files + bytes([0]) + piece(4, u8, 50, 51)
    yield "tied", files + bytes([2]) + piece(0, u8, 512, 600) + piece(0, u8, 512, 600) + piece(0, u8, 14999, 1)


for name, data in headers():
    write("header", name, data)
for name, data in layouts():
    write("layout", name, data)
