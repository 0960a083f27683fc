"""Python loads this by itself where PYTHONPATH names its folder: the brokers of a cluster under
test get kill points and a journal of their writes. Nothing of the product knows of it; any other
process of the cluster is left alone.
"""

import os
import sys

_words = sys.orig_argv
if (
    "REGENT_CHAOS" in os.environ
    and "infra" in _words
    and _words[_words.index("infra") + 1 :][:1] == ["broker"]
):
    try:
        from tests.chaos.kill_points import install

        install(os.environ["REGENT_CHAOS"])
    except BaseException:  # Python would go on without it
        import traceback

        traceback.print_exc()
        os._exit(70)
