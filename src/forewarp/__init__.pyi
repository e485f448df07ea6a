"""What `import forewarp` offers, and where it is: read by type checkers, and by `__init__.py` when a name is used."""

from forewarp.api.arguments import AnyKernel as AnyKernel
from forewarp.api.arguments import AnyTask as AnyTask
from forewarp.api.arguments import Options as Options
from forewarp.api.arguments import Where as Where
from forewarp.api.arguments import define_task as define_task
from forewarp.api.run import Run as Run
from forewarp.api.searches import load as load
from forewarp.api.searches import optimize as optimize
from forewarp.api.searches import resume as resume
from forewarp.api.verbs import forecast as forecast
from forewarp.api.verbs import inspect as inspect
from forewarp.api.verbs import measure as measure
from forewarp.api.verbs import measure_all as measure_all
from forewarp.api.verbs import suite as suite
from forewarp.api.verbs import validate as validate
from forewarp.core import bins as bins
from forewarp.core.errors import ArchiveError as ArchiveError
from forewarp.core.errors import CandidateError as CandidateError
from forewarp.core.errors import DeviceError as DeviceError
from forewarp.core.errors import ForewarpError as ForewarpError
from forewarp.core.errors import ModelError as ModelError
from forewarp.core.errors import TaskError as TaskError
from forewarp.core.errors import UsageError as UsageError
from forewarp.core.errors import WorkerError as WorkerError
from forewarp.core.protocols import Attempt as Attempt
from forewarp.core.protocols import Executor as Executor
from forewarp.core.protocols import Forecaster as Forecaster
from forewarp.core.protocols import Known as Known
from forewarp.core.protocols import Proposal as Proposal
from forewarp.core.protocols import Proposer as Proposer
from forewarp.core.protocols import Subject as Subject
from forewarp.core.protocols import Trial as Trial
from forewarp.core.values import Candidate as Candidate
from forewarp.core.values import Cost as Cost
from forewarp.core.values import Forecast as Forecast
from forewarp.core.values import Measurement as Measurement
from forewarp.core.values import Target as Target
from forewarp.core.values import Task as Task
from forewarp.search import events as events
from forewarp.tools.session import Executors as Executors

__version__: str
