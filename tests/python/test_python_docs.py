"""Runs the examples in Python of README.md and docs/python.md, and the cells of
examples/notebook.ipynb."""
import doctest
import json
import os
import re
import sys
import tempfile

from checks import BUILD, SOURCE, check, finish

sys.path.insert(0, os.path.join(BUILD, "python"))
try:
    import pandas  # noqa: F401
    import syntorch  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PAGES = {"README.md": 5, "docs/python.md": 20}  # at least as many examples
NOTEBOOK = os.path.join(SOURCE, "examples", "notebook.ipynb")
os.chdir(tempfile.mkdtemp())

for page, least in PAGES.items():
    failed, tried = doctest.testfile(os.path.join(SOURCE, page), module_relative=False,
                                     globs={"source": SOURCE},
                                     optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    check(tried > least, f"only {tried} examples were found in {page}")
    check(failed == 0, f"{failed} of {tried} examples of {page} fail (see above)")

try:
    import torch  # noqa: F401
    with open(os.path.join(SOURCE, "docs", "python.md"), encoding="utf-8") as file:
        blocks = re.findall(r"```python\n(.*?)```", file.read(), re.S)
    check(len(blocks) == 3, f"{len(blocks)} blocks of PyTorch")
    for code in blocks:
        exec(compile(code, "docs/python.md", "exec"), {})
except ImportError:
    print("without torch: the examples of PyTorch are not run")

with open(NOTEBOOK, encoding="utf-8") as file:
    notebook = json.load(file)
cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
names = {"__name__": "__main__"}
os.environ["SYN_SOURCE"] = SOURCE
for number, cell in enumerate(cells):
    code = "".join(cell["source"])
    lines = code.rstrip().splitlines()
    try:
        # The value of a last line without assignment is shown, as in a notebook.
        try:
            value = compile(lines[-1], f"cell {number}", "eval")
            exec(compile("\n".join(lines[:-1]), f"cell {number}", "exec"), names)
            shown = eval(value, names)
        except SyntaxError:
            exec(compile(code, f"cell {number}", "exec"), names)
            shown = None
        for how in ("_repr_svg_", "_repr_html_"):
            if hasattr(shown, how):
                check(getattr(shown, how)(), f"cell {number} shows nothing")
        check(shown is None or cell["outputs"], f"cell {number} has no stored output")
    except Exception as error:
        check(False, f"cell {number} of {NOTEBOOK}: {error!r}\n{code}")
check(len(cells) >= 8, f"{len(cells)} cells")
finish()
