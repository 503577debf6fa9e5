from captious.studio.log import Log as Log
from captious.studio.plan import Plan as Plan
