"""Images as people hold them, without the originals (test_live_images.py compares them)."""

import numpy as np
import pytest


def test_arrays_of_paths_are_lists(digits, digit_photos):
    wanted = digits.embed(digit_photos[:3])
    assert np.array_equal(digits.embed(np.array(digit_photos[:3])), wanted)
    assert np.array_equal(digits.embed(np.array(digit_photos[:3], dtype=object)), wanted)


def test_file_objects_are_refused(digits, digit_photos):
    with open(digit_photos[0], "rb") as file, pytest.raises(TypeError, match="read"):
        digits.classify(file)
