"""xxh3-64 of more than 240 bytes, as documents of checkpoints carry it: for tests that forge one.

The algorithm and its secret: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md"""
import struct

SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
PRIME32 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
PRIME64 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
WORD = 0xFFFF_FFFF_FFFF_FFFF
STRIPE, STRIPES = 64, 16


def words(data, start, count=8):
    return struct.unpack_from(f"<{count}Q", data, start)


def accumulate(sums, data, at, secret_at):
    for lane, (value, secret) in enumerate(zip(words(data, at), words(SECRET, secret_at))):
        key = value ^ secret
        sums[lane ^ 1] = (sums[lane ^ 1] + value) & WORD
        sums[lane] = (sums[lane] + (key & 0xFFFF_FFFF) * (key >> 32)) & WORD


def scramble(sums):
    for lane, secret in enumerate(words(SECRET, len(SECRET) - STRIPE)):
        sums[lane] = ((sums[lane] ^ sums[lane] >> 47 ^ secret) * PRIME32[0]) & WORD


def xxh3_64(data):
    """The checksum as 16 hexadecimal digits."""
    assert len(data) > 240
    sums = [PRIME32[2], *PRIME64[:4], PRIME32[1], PRIME64[4], PRIME32[0]]
    for stripe in range((len(data) - 1) // STRIPE):
        accumulate(sums, data, stripe * STRIPE, stripe % STRIPES * 8)
        if stripe % STRIPES == STRIPES - 1 and (stripe + 1) * STRIPE <= len(data) - 1:
            scramble(sums)
    accumulate(sums, data, len(data) - STRIPE, len(SECRET) - STRIPE - 7)
    mixed = len(data) * PRIME64[0]
    for lane, (low, high) in enumerate(zip(words(SECRET, 11)[::2], words(SECRET, 11)[1::2])):
        product = (sums[2 * lane] ^ low) * (sums[2 * lane + 1] ^ high)
        mixed += (product & WORD) ^ (product >> 64)
    mixed &= WORD
    mixed = ((mixed ^ mixed >> 37) * 0x165667919E3779F9) & WORD
    return f"{mixed ^ mixed >> 32:016x}"
