from captious._version import __version__ as __version__
from captious.bias.audit import Audit as Audit
from captious.bias.audit import audit as audit
from captious.captions import CaptionSet as CaptionSet
from captious.captions import ImageData as ImageData
from captious.captions import Item as Item
from captious.comparison import Comparison as Comparison
from captious.comparison import compare as compare
from captious.errors import InputError as InputError
from captious.evaluation import Report as Report
from captious.evaluation import evaluate as evaluate
from captious.evaluation import evaluate_shards as evaluate_shards
from captious.io.check import Check as Check
from captious.io.check import check as check
from captious.io.read import read as read
from captious.metrics.contract import Measurement as Measurement
from captious.metrics.contract import Metric as Metric
from captious.metrics.contract import Signature as Signature
from captious.metrics.registry import parse
from captious.options import Engine as Engine
from captious.options import Judging as Judging
from captious.options import Output as Output
from captious.options import Reading as Reading
from captious.options import Resampling as Resampling
from captious.options import Runtime as Runtime
from captious.options import using as using
from captious.runs import Run as Run
from captious.runs import read_run as read_run
from captious.samples import Demo as Demo
from captious.samples import demo as demo
from captious.scorer import Scorer as Scorer
from captious.study._correlate import correlate as correlate
from captious.study.study import Study as Study
from captious.tournament import Arena as Arena
from captious.tournament import arena as arena

metric = parse
