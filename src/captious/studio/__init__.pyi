from captious.studio.plan import Plan as Plan
