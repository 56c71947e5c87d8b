"""Simulates an LLM server with the `syntorch` program."""
from __future__ import annotations

import os
import tempfile
import typing

from ._core import InvalidError
from .runs import _arguments, _csv, _Model, run
from .traces import SVG

if typing.TYPE_CHECKING:
    import pandas


class Served(dict):
    """The results of a simulated server, as in `syntorch serve --json`: "ttft_ns", "tpot_ns",
    "latency_ns", ..."""

    requests: pandas.DataFrame
    """A row for each request, in order of arrival."""
    series: pandas.DataFrame
    """The state of the server over time: a row for each bin."""
    picture: SVG
    """The same as a picture, which notebooks show."""

    def __init__(self, result, prefix):
        super().__init__(result)
        self.requests = _csv(prefix + ".requests.csv")
        self.series = _csv(prefix + ".series.csv")
        with open(prefix + ".svg", encoding="utf-8") as file:
            self.picture = SVG(file.read())

    def _repr_svg_(self):
        return str(self.picture)


class ServeSweep(dict):
    """The results of a sweep over simulated servers, as in `syntorch serve --sweep --json`."""

    rows: pandas.DataFrame
    """A row for each combination of options, in the order of the combinations."""
    picture: SVG
    """Throughput against the time per output token, with the Pareto front."""

    def __init__(self, result, prefix):
        super().__init__(result)
        self.rows = _csv(prefix + ".sweep.csv")
        with open(prefix + ".sweep.svg", encoding="utf-8") as file:
            self.picture = SVG(file.read())

    def _repr_svg_(self):
        return str(self.picture)


def serve(model: typing.Any, requests: typing.Any, *, out: str | os.PathLike | None = None,
          **options: typing.Any) -> Served | ServeSweep | dict:
    """Simulates a server that serves a model to arriving requests: serve("llama-3-8b",
    "sharegpt-like", rate=4, duration=60, hw="h100").

    model: as in trace.
    requests: the path of a file, a workload such as "sharegpt-like" or "fixed:512:128", or a
        DataFrame with the columns of such a file, such as the requests of another run.
    out: the prefix of files to keep; the tables of the result are read from them.
    options: any other option of `syntorch serve`, such as tp=2, dp=4, max_num_seqs=256,
        prefill="tp=4", decode="tp=8".

    Returns a Served, a dict with the tables `requests` and `series`; with sweep=["tp=1,2,4",
    "hw=h100,h200"] a ServeSweep, a dict with the table `rows`; with find_rate=True the dict of
    `syntorch serve --find-rate --json`."""
    if "json" in options:
        raise InvalidError("serve has no option 'json'")
    with _Model(model) as chosen, tempfile.TemporaryDirectory() as folder:
        if hasattr(requests, "to_csv"):
            path = os.path.join(folder, "given.csv")
            requests.to_csv(path, index=False)
            requests = path
        given = {**chosen.options, "requests": requests, **options}
        if options.get("find_rate") and not options.get("sweep") and out is None:
            return run("serve", *_arguments(given), "--json")
        prefix = os.path.join(folder, "serve") if out is None else os.fspath(out)
        result = run("serve", *_arguments({**given, "out": prefix}), "--json")
        if out is None:
            result.pop("written", None)
        return ServeSweep(result, prefix) if options.get("sweep") else Served(result, prefix)
