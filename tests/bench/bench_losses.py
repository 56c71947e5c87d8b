"""./dev bench losses: proves that GPT-2 124M and BERT-base train from random weights as in PyTorch.
Each of 20 losses must be within 1e-4 of PyTorch's, which are in
tests/reference/pretraining_full.json. This takes minutes and needs no PyTorch. Exits with 1 if a
loss is off or a run fails. The cases that train on SQuAD's article need SYN_SHARED_DATA.
"""
import os
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from pretraining_cases import cases, differences, is_here, run_case, what  # noqa: E402

LIMIT = 1e-4
missed = 0
for case in cases("pretraining_full.json"):
    options, want = case["options"], case["losses"]
    if not is_here(options):
        print(f"{what(options)}: skipped, there is no SYN_SHARED_DATA")
        continue
    with tempfile.TemporaryDirectory() as folder:
        got, errors = run_case(options, folder)
    off = max(differences(got, want), default=1)
    right = len(got) == len(want) and off <= LIMIT
    missed += not right
    print(f"{what(options)}: loss {want[0]:.3f} to {want[-1]:.3f}, off by {off:.1e} (limit "
          f"{LIMIT:.0e}){'' if right else ': MISSED'}", flush=True)
    if not got:
        print(errors, end="")
sys.exit(1 if missed else 0)
