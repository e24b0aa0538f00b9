"""The originals, for the tests that need them: their modules are skipped by name where one is missing."""

import os
import sys

import pytest
from support import ROOT

os.environ.setdefault("HF_HUB_OFFLINE", "1")
torch = pytest.importorskip("torch")
sys.path.insert(0, str(ROOT / "tools"))
import torchvision_stub  # noqa: E402, F401  before torchvision

timm = pytest.importorskip("timm")
transformers = pytest.importorskip("transformers")
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)
