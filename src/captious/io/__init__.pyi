import captious.io.clip_files
import captious.io.columns
import captious.io.printed
import captious.io.questions
import captious.io.tars
import captious.io.videos
from captious.io.arrow import open_parquet as open_parquet
from captious.io.arrow import read_parquet as read_parquet
from captious.io.check import Check as Check
from captious.io.coco import read_marked_objects as read_marked_objects
from captious.io.formats import read_rows as read_rows
from captious.io.images import ImageFolder as ImageFolder
from captious.io.images import UnreadableImage as UnreadableImage
from captious.io.images import add_images as add_images
from captious.io.images import find_images as find_images
from captious.io.images import open_image as open_image
from captious.io.join import gather_candidates as gather_candidates
from captious.io.join import gather_references as gather_references
from captious.io.json_layouts import parse_json_row as parse_json_row
from captious.io.rows import Row as Row
from captious.io.shards import Shard as Shard
from captious.io.shards import expand as expand
from captious.io.shards import read_shard as read_shard
from captious.io.storage import Storage as Storage
from captious.io.storage import is_remote as is_remote
