"""Predicted times of FSDP training, compared with measured ones (tests/measured/training_fsdp.csv),
and times and memory compared with those of torchtitan (training_torchtitan.csv).
With an argument, writes the errors of the rows that were not fitted to that file, as
hardware_errors_fsdp.def has them."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import check, enter_folder, finish  # noqa: E402
from measured_rows import fsdp_error, rows_of, torchtitan_errors  # noqa: E402

# Mean error of the fitted rows and of the others.
LIMITS = {("a100-80g", "1"): 0.06, ("a100-80g", "0"): 0.05, ("h100", "1"): 0.06,
          ("h100", "0"): 0.05}


def main():
    errors, lines = {}, []
    for row in rows_of("training_fsdp.csv"):
        error = fsdp_error(row)
        errors.setdefault((row["hw"], row["fitted"]), []).append(error)
        check(abs(error) < 0.2, f"{error:+.3f}: {row}")
        if row["fitted"] == "0":
            lines.append(f'X("{row["hw"]}+fsdp", 1, {row["layers"]}, {row["hidden"]}, 1, '
                         f'{row["gpus"]}, 1, {row["micro_batch"]}, {row["tokens"]}, 0, '
                         f'{error:.3f})\n')
    for key, found in errors.items():
        mean = sum(map(abs, found)) / len(found)
        print(f"{key[0]}, {'fitted' if key[1] == '1' else 'held back'}: {len(found)} rows, mean "
              f"error {100 * mean:.1f} %, mean {100 * sum(found) / len(found):+.1f} %")
        check(mean < LIMITS[key], f"{key}: mean error {mean}")
    titan = [torchtitan_errors(row) for row in rows_of("training_torchtitan.csv")]
    for what, found in zip(("time", "memory"), zip(*titan)):
        mean = sum(map(abs, found)) / len(found)
        print(f"torchtitan, {what}: mean error {100 * mean:.1f} %, {found}")
        check(mean < 0.04 and max(map(abs, found)) < 0.08, f"torchtitan, {what}: {found}")
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w", encoding="utf-8") as f:
            f.writelines(lines)


target = [os.path.abspath(a) for a in sys.argv[1:]]
sys.argv[1:] = target
enter_folder()
main()
finish()
