"""Error callbacks for tasks of either language: as reference/celery.md shows them."""
from functools import wraps

from celery import current_app


def either_style(errback):
    @wraps(errback)
    def called(*given):
        if len(given) == 3:  # from a task of this process
            return errback(*given)
        failed = current_app.AsyncResult(given[0])  # from elsewhere: the id
        return errback(failed, failed.result, failed.traceback)
    return called
