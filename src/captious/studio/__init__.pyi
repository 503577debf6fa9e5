from captious.studio.kinds import kind_of as kind_of
from captious.studio.log import Log as Log
from captious.studio.plan import Plan as Plan
from captious.studio.plan import parse_plan as parse_plan
from captious.studio.plan import read_plan as read_plan
from captious.studio.tasks import Task as Task
from captious.studio.tasks import build_tasks as build_tasks
