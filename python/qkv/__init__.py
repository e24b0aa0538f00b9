"""qkv: attention models, run and taken apart, without PyTorch.

    >>> import qkv
    >>> model = qkv.load("digits")    # or a folder, a file, a name in the Hugging Face hub's cache
    >>> model.classify("examples/digits/8-black.png", top=1)
    <examples/digits/8-black.png: 8 91.0 %>

Models are read as they lie on disk (timm, Hugging Face, open_clip, vit-pytorch); nothing is fetched, and nothing is sent.
"""

from typing import TYPE_CHECKING

from . import qk
from ._core import Error, version as __version__
from . import edits as edits
from ._ablation import Comparison, ablate
from ._attention import ImageAttention, TextAttention
from ._evaluation import Evaluated, evaluate
from ._functional import AttentionGradient, attention, attention_backward
from ._live import from_timm, from_transformers
from ._load import find_images, load, set_memory_limit, set_num_threads
from ._model import Model
from ._notes import ModelWarning
from ._pipeline import Pipeline, pipeline
from ._run import Run
from ._results import Caption, Classification, Detections, Exploration, Object, Prediction, Segment, Segmentation, Text
from ._training import Evaluation, Setting, Step, TrainingRun, train, training_settings

if TYPE_CHECKING:
    # Imported at their first use.
    from . import chroma as chroma, langchain as langchain, llama_index as llama_index, ray as ray
    from . import sklearn as sklearn, torch as torch, transformers as transformers

Error.__module__ = "qkv"


def __getattr__(name: str) -> object:
    if name in ("chroma", "langchain", "llama_index", "ray", "sklearn", "torch", "transformers"):
        import importlib

        return importlib.import_module(f"qkv.{name}")
    raise AttributeError(f"module 'qkv' has no attribute {name!r}")

Error.__doc__ = "A model, an image, a text or an argument is not as expected; the text says what to do."

__all__ = [
    "AttentionGradient",
    "Caption",
    "Classification",
    "Comparison",
    "Detections",
    "Error",
    "Evaluated",
    "Evaluation",
    "Exploration",
    "ImageAttention",
    "Model",
    "ModelWarning",
    "Object",
    "Pipeline",
    "Prediction",
    "Run",
    "Segment",
    "Segmentation",
    "Setting",
    "Step",
    "Text",
    "TextAttention",
    "TrainingRun",
    "ablate",
    "attention",
    "attention_backward",
    "evaluate",
    "find_images",
    "from_timm",
    "from_transformers",
    "load",
    "pipeline",
    "qk",
    "set_memory_limit",
    "set_num_threads",
    "train",
    "training_settings",
]
