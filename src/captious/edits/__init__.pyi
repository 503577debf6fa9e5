import captious.edits.changes
import captious.edits.details
import captious.edits.orders
import captious.edits.word_masks
import captious.edits.wrong_words
from captious.edits.catalogue import EDITS as EDITS
from captious.edits.edit import GROUPS as GROUPS
from captious.edits.edit import Edit as Edit
from captious.edits.edit import EditedCaption as EditedCaption
from captious.edits.edit_table import EditedCaptions as EditedCaptions
from captious.edits.edit_table import edit_captions as edit_captions
from captious.edits.edit_table import find_edits as find_edits
from captious.edits.edit_table import read_edits as read_edits
from captious.edits.lexicon import CaptionCorpus as CaptionCorpus
from captious.edits.lexicon import Lexicon as Lexicon
from captious.edits.surroundings import Surroundings as Surroundings
