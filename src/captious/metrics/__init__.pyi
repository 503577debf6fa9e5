import captious.metrics.abilities
import captious.metrics.chunks
import captious.metrics.clip.encoded
import captious.metrics.dense.by_file
import captious.metrics.hallucination.truth
import captious.metrics.judges.dry_run
import captious.metrics.judges.judged
import captious.metrics.judges.matches
import captious.metrics.meteor.engine
import captious.metrics.meteor.resources
import captious.metrics.requests
import captious.metrics.spice.graphs
import captious.metrics.spice.listing
import captious.metrics.style.model
from captious.metrics.clip.encoded import EncoderMetric as EncoderMetric
from captious.metrics.contract import MeanMetric as MeanMetric
from captious.metrics.contract import Metric as Metric
from captious.metrics.contract import Need as Need
from captious.metrics.contract import Shared as Shared
from captious.metrics.contract import TokenMetric as TokenMetric
from captious.metrics.explanation import Breakdown as Breakdown
from captious.metrics.explanation import Contribution as Contribution
from captious.metrics.explanation import Explanation as Explanation
from captious.metrics.explanation import Explanations as Explanations
from captious.metrics.explanation import MarkedText as MarkedText
from captious.metrics.measurement import Measurement as Measurement
from captious.metrics.measurement import Signature as Signature
from captious.metrics.registry import names as names
from captious.metrics.registry import parse as parse
from captious.metrics.registry import parse_all as parse_all
from captious.metrics.statistic_rows import Scored as Scored
from captious.metrics.statistic_rows import TypeSets as TypeSets
from captious.metrics.statistic_rows import candidate_means as candidate_means
from captious.metrics.statistic_rows import item_means as item_means
from captious.metrics.style.explain import explain
from captious.metrics.style.fitting import fit
from captious.metrics.style.model_files import save
from captious.text.corpus_states import State as State

explain_style = explain
fit_style = fit
save_style = save
