import captious.engines.ray
from captious.engines.child import Child as Child
from captious.engines.child import Pipes as Pipes
from captious.engines.processes import count_cores as count_cores
from captious.engines.processes import count_processes as count_processes
from captious.engines.processes import list_visible_gpus as list_visible_gpus
from captious.engines.tasks import Finished as Finished
from captious.engines.tasks import run_tasks as run_tasks
