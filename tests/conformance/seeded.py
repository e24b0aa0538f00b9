"""Numbers from a seed, the same as seeded.h makes: recorded cases store no inputs."""

import numpy as np

SAMPLES = 64  # recorded elements of an output
Q, K, V, DOUT, BIAS, MASK = range(6)  # what a seed is for


def bits(seed, count):
    """32 bits for each index: the finaliser of MurmurHash3."""
    with np.errstate(over="ignore"):
        h = np.arange(count, dtype=np.uint32) + np.uint32(seed % 2**32) * np.uint32(0x9E3779B9)
        h ^= h >> np.uint32(16)
        h *= np.uint32(0x85EBCA6B)
        h ^= h >> np.uint32(13)
        h *= np.uint32(0xC2B2AE35)
        return h ^ (h >> np.uint32(16))


def numbers(seed, what, shape):
    """Multiples of 1/128 below 2: exact in float16 and in bfloat16."""
    values = bits(8 * seed + what, int(np.prod(shape))) % np.uint32(511)
    return (values.astype(np.float64) - 255).reshape(shape) / 128


def mask(seed, shape):
    return (bits(8 * seed + MASK, int(np.prod(shape))) % np.uint32(2)).astype(bool).reshape(shape)


def samples(seed, x):
    """Some elements of an output."""
    x = np.asarray(x, dtype=np.float64).reshape(-1)
    return x[bits(seed, SAMPLES) % np.uint32(x.size)]
