import captious.studio.access
import captious.studio.collect.amend
import captious.studio.collect.sessions
import captious.studio.collect.study_check
import captious.studio.collect.verify
import captious.studio.explore.explorer_server
import captious.studio.explore.explorer_table
import captious.studio.explore.site
import captious.studio.owner.demo_study
import captious.studio.owner.history
import captious.studio.owner.invitations
import captious.studio.owner.raters
import captious.studio.server
from captious.studio.collect.kinds import kind_of as kind_of
from captious.studio.collect.log import StudyLog as StudyLog
from captious.studio.collect.new import new_plan as new_plan
from captious.studio.collect.rating_tasks import Task as Task
from captious.studio.collect.rating_tasks import build_tasks as build_tasks
from captious.studio.collect.study_plan import Plan as Plan
from captious.studio.collect.study_plan import parse_plan as parse_plan
from captious.studio.collect.study_plan import read_plan as read_plan
from captious.studio.owner.export import Export as Export
from captious.studio.owner.export import export_study as export_study
from captious.studio.owner.simulate import Simulation as Simulation
from captious.studio.owner.simulate import simulate_raters as simulate_raters
from captious.studio.owner.study_progress import StudyProgress as StudyProgress
from captious.studio.owner.study_progress import study_progress as study_progress
