"""Syntorch records what the ranks of a model do, on machines that you need not own.

    import syntorch
    t = syntorch.trace("gpt2", tp=2, hw="h100")
    t.ops()                  # a pandas.DataFrame
    t.svg()                  # a picture, in a notebook
    t.save("gpt2.et")        # Chakra execution traces

docs/python.md describes the package."""
from ._core import (CommunicationError, Error, FileError, FormatError, InvalidError,
                    OutOfMemoryError, ShapeError, UnsupportedError)
from ._values import PerRank, Tensor
from .contexts import Context
from .runs import (calibrate, compare, convert, machines, models, predict, pretrain, run, stacks,
                   sweep, synth, trace)
from .serving import Served, ServeSweep, serve
from .simulation import Simulation, Validation, simulate, validate
from .tables import Table
from .torch_modules import from_torch
from .torch_traces import convert_all, record
from .traces import HTML, SVG, Arrays, Trace, load, version

__version__ = version()

__all__ = ["Arrays", "CommunicationError", "Context", "Error", "FileError", "FormatError", "HTML",
           "InvalidError", "OutOfMemoryError", "PerRank", "SVG", "ServeSweep", "Served",
           "ShapeError", "Simulation", "Table", "Tensor", "Trace", "UnsupportedError",
           "Validation", "calibrate", "compare", "convert", "convert_all", "from_torch", "load",
           "machines", "models", "predict", "pretrain", "record", "run", "serve", "simulate",
           "stacks", "sweep", "synth", "trace", "validate", "version"]
