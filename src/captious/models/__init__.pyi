from captious.models.crossencoders import load_backbone as load_backbone
from captious.models.dual import Shape
from captious.models.dual import new_dual as new_dual
from captious.models.encoder import Encoder as Encoder
from captious.models.features import Encoded as Encoded
from captious.models.features import cosines as cosines
from captious.models.features import image_features as image_features
from captious.models.features import text_features as text_features
from captious.models.language import load_contextual as load_contextual
from captious.models.loading import load as load
from captious.models.loading import load_trainable as load_trainable
from captious.models.painters import load_painter as load_painter
from captious.models.sentences import load_sentences as load_sentences
from captious.models.sentences import sentence_vectors as sentence_vectors
from captious.models.store import Store as Store
from captious.models.store import open_store as open_store
from captious.models.uniter import load_uniter as load_uniter

DualShape = Shape
