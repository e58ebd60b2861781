"""Limits of the tree: modules per folder, modules in all, and imports per module."""

from collections import Counter, defaultdict

from tests.house.checks import Sources, imports, is_in, own_name, packages_of
from tests.house.rules import ASIDE, FOLDER_MODULES_MAX, IMPORTS_MAX, MANY_IMPORTS_FOR_NOW, MODULES_MAX


def check_tree(sources: Sources) -> list[str]:
    """Return a sentence per folder with too many modules, and one where the whole tree has too many."""
    modules = sources.keys() - packages_of(sources)
    folders = Counter(module.rpartition(".")[0] for module in modules)
    breaches = [
        f"{folder} has {count} modules, at most {FOLDER_MODULES_MAX} are allowed: merge some or add a folder"
        for folder, count in sorted(folders.items())
        if count > FOLDER_MODULES_MAX
    ]
    counted = [module for module in modules if not any(is_in(own_name(module) or "", room) for room in ASIDE)]
    if len(counted) > MODULES_MAX:
        breaches.append(f"the tree has {len(counted)} modules, at most {MODULES_MAX} are allowed: merge some")
    return breaches


def check_import_counts(sources: Sources) -> list[str]:
    """Return a sentence per module that imports too many of ours, and per exception that is not needed any more."""
    imported: defaultdict[str, set[str]] = defaultdict(set)
    for found in imports(sources):
        if own_name(found.target) is not None and found.target != found.module:
            imported[own_name(found.module) or ""].add(found.target)
    above = {
        module: (len(targets), maximum)
        for module, targets in imported.items()
        for room, maximum in IMPORTS_MAX.items()
        if is_in(module, room) and len(targets) > maximum
    }
    return [
        *(
            f"{module} imports {count} of our modules, at most {maximum} are allowed in its folder"
            for module, (count, maximum) in above.items()
            if module not in MANY_IMPORTS_FOR_NOW
        ),
        *(
            f"{module} is an exception in tests/house/rules.py but imports few enough modules: remove its line"
            for module in MANY_IMPORTS_FOR_NOW
            if module not in above
        ),
    ]
