import captious.runs.marker
import captious.runs.pairing
import captious.runs.report_sections
import captious.runs.source
import captious.runs.states
import captious.runs.stored
import captious.runs.summary
import captious.runs.tables
from captious.runs.folder import Run as Run
from captious.runs.folder import has_runs as has_runs
from captious.runs.folder import is_output as is_output
from captious.runs.folder import is_run as is_run
from captious.runs.keep import Selection as Selection
from captious.runs.keep import keep as keep
from captious.runs.report import Report as Report
from captious.runs.report import open_run as open_run
from captious.runs.tracking import TrackedReport as TrackedReport
