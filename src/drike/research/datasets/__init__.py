"""Benchmarks and own facts from files: `load` reads them as one `Dataset`, which draws splits.

A file of rows (`drike.support.rows`) is in one of the `forms`, or in that of `own` facts. Each is a
`form.Form`, which reads the fields of a row; `form.read_cases` drops what cannot be judged, and
`cleaning` cuts CounterFact's paraphrases. `loading` puts files together, `downloads` fetches them,
and `inspection` says what is in a data set. `generated` adds probes that a data set lacks.
"""

from drike.research.datasets.dataset import SUBSETS, Dataset, SplitIds, by_case_id
from drike.research.datasets.downloads import PUBLISHED, fetch
from drike.research.datasets.form import Paraphrases, Target
from drike.research.datasets.inspection import description
from drike.research.datasets.loading import TINYFACTS, load

__all__ = [
    "PUBLISHED",
    "SUBSETS",
    "TINYFACTS",
    "Dataset",
    "Paraphrases",
    "SplitIds",
    "Target",
    "by_case_id",
    "description",
    "fetch",
    "load",
]
