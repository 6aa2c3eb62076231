"""One thread a process: the models of the tests are tiny, and waiting threads cost more than they do."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
