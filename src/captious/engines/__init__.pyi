import captious.engines.ray
from captious.engines.child import Child as Child
from captious.engines.child import Pipes as Pipes
from captious.engines.processes import cores as cores
from captious.engines.processes import process_count as process_count
from captious.engines.processes import visible_gpus as visible_gpus
from captious.engines.tasks import Finished as Finished
from captious.engines.tasks import run_tasks as run_tasks
