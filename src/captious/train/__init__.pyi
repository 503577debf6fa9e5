import captious.train.negative_records
import captious.train.processes
from captious.edits.lexicon import CaptionCorpus as CaptionCorpus
from captious.edits.lexicon import Lexicon as Lexicon
from captious.train.negatives import make_negatives as make_negatives
from captious.train.options import ClipOptions as ClipOptions
from captious.train.options import LongClipOptions as LongClipOptions
from captious.train.options import Settings as Settings
from captious.train.options import SpecsOptions as SpecsOptions
from captious.train.options import Training as Training
from captious.train.options import UmicOptions as UmicOptions
from captious.train.run import Trained as Trained
from captious.train.run import train as train
from captious.train.similar_images import SimilarImages as SimilarImages
