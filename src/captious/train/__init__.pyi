import captious.train.distributed
import captious.train.negative_records
from captious.edits.lexicon import CaptionCorpus as CaptionCorpus
from captious.edits.lexicon import Lexicon as Lexicon
from captious.train.negatives import make_negatives as make_negatives
from captious.train.run import Trained as Trained
from captious.train.run import train as train
from captious.train.similar_images import SimilarImages as SimilarImages
from captious.train.training_options import ClipOptions as ClipOptions
from captious.train.training_options import LongClipOptions as LongClipOptions
from captious.train.training_options import Settings as Settings
from captious.train.training_options import SpecsOptions as SpecsOptions
from captious.train.training_options import Training as Training
from captious.train.training_options import UmicOptions as UmicOptions
