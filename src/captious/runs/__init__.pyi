import captious.runs.image_folders
import captious.runs.marker
import captious.runs.pairing
import captious.runs.report_sections
import captious.runs.run_tables
import captious.runs.source
import captious.runs.stored
import captious.runs.stored_states
import captious.runs.summary
from captious.loops.trackers import TrackedReport as TrackedReport
from captious.runs.folder import Run as Run
from captious.runs.folder import has_runs as has_runs
from captious.runs.folder import is_output as is_output
from captious.runs.folder import is_reward_run as is_reward_run
from captious.runs.folder import is_run as is_run
from captious.runs.keep_items import Selection as Selection
from captious.runs.keep_items import keep as keep
from captious.runs.report import Report as Report
from captious.runs.report import open_run as open_run
