import captious.models.bleurt
import captious.models.chat.clip_images
import captious.models.chat.judge
import captious.models.chat.messages
import captious.models.chat.replies
import captious.models.checkpoints
import captious.models.clip
import captious.models.clip_frames
import captious.models.clip_stills
import captious.models.cost
import captious.models.decoding
import captious.models.devices
import captious.models.domain
import captious.models.factual
import captious.models.fluency
import captious.models.frame_features
import captious.models.fusion
import captious.models.hidden_states
import captious.models.hub
import captious.models.image_text_matching
import captious.models.mini
import captious.models.pipeline
import captious.models.polos
import captious.models.region_database
import captious.models.segments
import captious.models.token_rows
from captious.models.crossencoders import load_backbone as load_backbone
from captious.models.dual import DualHeads as DualHeads
from captious.models.dual import new_dual as new_dual
from captious.models.encoder import Encoder as Encoder
from captious.models.encoder import TextEncoder as TextEncoder
from captious.models.encoder import Tokens as Tokens
from captious.models.encoder import Weights as Weights
from captious.models.encoder import encoder_id as encoder_id
from captious.models.features import EncodedRows as EncodedRows
from captious.models.features import cosines as cosines
from captious.models.features import image_features as image_features
from captious.models.features import text_features as text_features
from captious.models.language import load_contextual as load_contextual
from captious.models.loading import load as load
from captious.models.loading import load_trainable as load_trainable
from captious.models.painters import allow_painter as allow_painter
from captious.models.painters import load_painter as load_painter
from captious.models.sentence_models import load_sentences as load_sentences
from captious.models.sentence_models import sentence_vectors as sentence_vectors
from captious.models.store import Store as Store
from captious.models.store import open_store as open_store
from captious.models.uniter import load_uniter as load_uniter
