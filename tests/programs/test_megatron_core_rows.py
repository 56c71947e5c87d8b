"""Predicted times of training in FP8 with Megatron Core, compared with measured ones
(tests/measured/training_megatron_core.csv)."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import check, enter_folder, finish  # noqa: E402
from measured_rows import megatron_core_error, rows_of  # noqa: E402


def main():
    errors = []
    for row in rows_of("training_megatron_core.csv"):
        errors.append(megatron_core_error(row))
        print(f"{errors[-1]:+.3f} {row['model']} {row['layers']} layers, {row['gpus']} GPUs")
        check(abs(errors[-1]) < 0.08, f"{errors[-1]:+.3f}: {row}")
    mean = sum(map(abs, errors)) / len(errors)
    print(f"{len(errors)} rows, mean error {100 * mean:.1f} %")
    check(mean < 0.045, f"mean error {mean}")


enter_folder()
main()
finish()
