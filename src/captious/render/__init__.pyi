import captious.render.answers
import captious.render.exports
import captious.render.html
import captious.render.items
import captious.render.notebook
import captious.render.progress
import captious.render.sections
import captious.render.terminal
from captious.render.document import Answer as Answer
from captious.render.document import Cell as Cell
from captious.render.document import Chart as Chart
from captious.render.document import Column as Column
from captious.render.document import Document as Document
from captious.render.document import Entry as Entry
from captious.render.document import Evidence as Evidence
from captious.render.document import Figure as Figure
from captious.render.document import Gallery as Gallery
from captious.render.document import Graph as Graph
from captious.render.document import Group as Group
from captious.render.document import ItemMetric as ItemMetric
from captious.render.document import Items as Items
from captious.render.document import Line as Line
from captious.render.document import Meter as Meter
from captious.render.document import Phrase as Phrase
from captious.render.document import Picture as Picture
from captious.render.document import Result as Result
from captious.render.document import Section as Section
from captious.render.document import Series as Series
from captious.render.document import Span as Span
from captious.render.document import Statement as Statement
from captious.render.document import Table as Table
from captious.render.document import Text as Text
from captious.render.document import Why as Why
from captious.render.document import link as link
from captious.render.document import name_several as name_several
from captious.render.document import open_evidence as open_evidence
