import captious.studio.access
import captious.studio.collect.amend
import captious.studio.collect.check
import captious.studio.collect.sessions
import captious.studio.collect.verify
import captious.studio.explore.server
import captious.studio.explore.site
import captious.studio.explore.table
import captious.studio.owner.demo
import captious.studio.owner.history
import captious.studio.owner.raters
import captious.studio.server
from captious.studio.collect.kinds import kind_of as kind_of
from captious.studio.collect.log import StudyLog as StudyLog
from captious.studio.collect.new import new_plan as new_plan
from captious.studio.collect.plan import Plan as Plan
from captious.studio.collect.plan import parse_plan as parse_plan
from captious.studio.collect.plan import read_plan as read_plan
from captious.studio.collect.tasks import Task as Task
from captious.studio.collect.tasks import build_tasks as build_tasks
from captious.studio.owner.export import Export as Export
from captious.studio.owner.export import export_study as export_study
from captious.studio.owner.progress import StudyProgress as StudyProgress
from captious.studio.owner.progress import study_progress as study_progress
from captious.studio.owner.simulate import Simulation as Simulation
from captious.studio.owner.simulate import simulate_raters as simulate_raters
