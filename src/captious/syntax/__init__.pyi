import captious.syntax.lemmas
import captious.syntax.objects
from captious.syntax.chunking import build_tree as build_tree
from captious.syntax.chunking import format_chunks as format_chunks
from captious.syntax.chunking import outline as outline
from captious.syntax.parsing import parse as parse
from captious.syntax.scenegraph import facts as facts
from captious.syntax.sentences import Sentence as Sentence
from captious.syntax.tagging import find_tagger as find_tagger
from captious.syntax.tagging import tag as tag
from captious.syntax.tagging import tag_texts as tag_texts
from captious.syntax.units import CutRules as CutRules
from captious.syntax.units import unit_spans as unit_spans
from captious.syntax.units import units

detail_units = units
