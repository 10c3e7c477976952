"""A synthetic table needs numpy and nothing that was not there before."""

import subprocess
import sys

NEW = ("scipy", "pandas", "polars", "matplotlib", "jax", "mbi")


def test_nothing_heavy_is_imported() -> None:
    script = (
        "import sys\n"
        "import aggregator.steward.survey.synthetic.making\n"
        "import aggregator.steward.survey.synthetic.of_pairs\n"
        "import aggregator.steward.survey.synthetic.three_answers\n"
        f"print([each for each in {NEW} if each in sys.modules])\n"
    )
    done = subprocess.run(  # noqa: S603  our own interpreter
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
