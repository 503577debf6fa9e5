import captious.probes.rankings
import captious.probes.style_check
import captious.probes.style_occurrences
import captious.probes.vectors
from captious.probes._stress import MetricStress as MetricStress
from captious.probes._stress import Stress as Stress
from captious.probes._stress import run_stress as run_stress
from captious.probes._stress import stress as stress
from captious.probes._stress_test import StressTest as StressTest
from captious.probes._stress_test import plan_stress as plan_stress
from captious.probes.classification import Classification as Classification
from captious.probes.classification import probe_classification as probe_classification
from captious.probes.classification import read_labeled as read_labeled
from captious.probes.classification import read_templates as read_templates
from captious.probes.compositionality import Compositionality as Compositionality
from captious.probes.compositionality import probe_compositionality as probe_compositionality
from captious.probes.compositionality import read_contests as read_contests
from captious.probes.entities import EntityRecall as EntityRecall
from captious.probes.entities import read_answers as read_answers
from captious.probes.entities import recall as recall
from captious.probes.entities import tasks as tasks
from captious.probes.hallucination import Hallucination as Hallucination
from captious.probes.hallucination import probe_hallucination as probe_hallucination
from captious.probes.hubness import Hubness as Hubness
from captious.probes.hubness import probe_hubness as probe_hubness
from captious.probes.masking import Masking as Masking
from captious.probes.masking import probe_masking as probe_masking
from captious.probes.pictures import PainterComparison as PainterComparison
from captious.probes.pictures import PictureGallery as PictureGallery
from captious.probes.pictures import compare_painters as compare_painters
from captious.probes.pictures import paint as paint
from captious.probes.probe import Probe as Probe
from captious.probes.retrieval import Retrieval as Retrieval
from captious.probes.retrieval import probe_retrieval as probe_retrieval
from captious.probes.specificity import Specificity as Specificity
from captious.probes.specificity import probe_specificity as probe_specificity
from captious.probes.specificity import read_details as read_details
