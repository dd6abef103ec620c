"""The start page of the catalog, and the tree next to its pages: projects, warehouses, namespaces, tables and views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from catalog.models import Tabular
from catalog.selectors.browse import NAMESPACE, PathStep, locate_namespace_for, locate_tabular_for, warehouse_path
from catalog.selectors.children import Child, list_children_for
from catalog.selectors.open_levels import read_open_levels_for
from icekeeper.kernel.errors.types import CatalogError, Forbidden, NotFound
from icekeeper.kernel.http.paging import Page as ListingPage
from icekeeper.kernel.ids import parse_id
from icekeeper.kernel.names import name_key
from management.admin.navigation import object_url
from management.admin.pages import Page, render_page
from management.admin.warehouse_choice import list_warehouses_by_project
from storage.models import Warehouse
from storage.selectors import get_warehouse_for, list_warehouses_for
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.models import Project
from tenancy.selectors.projects import get_visible_project_for, list_projects_for

NODES_A_LEVEL: Final = 100
"""Of one request; the tree has a button for more."""

_ANY_ID: Final = UUID(int=0)
"""Stands for an id in addresses."""


@dataclass(slots=True)
class Node:
    """A node of the tree. `address` names it in requests for its level; `nodes` are those of an open one."""

    kind: str
    address: str
    name: str
    url: str
    level_url: str = ""
    has_level: bool = True
    is_selected: bool = False
    is_open: bool = False
    level: Level | None = None

    @property
    def icon(self) -> str:
        return {"project": "catalog", NAMESPACE: "folder"}.get(self.kind, self.kind)


@dataclass(slots=True)
class Level:
    """The nodes directly below another one, and the address of those that follow them.

    A part of a large level has at its start the address that filters its names; `is_filtered` is what that returns.
    """

    nodes: list[Node] = field(default_factory=list)
    more_url: str | None = None
    filter_url: str | None = None
    is_filtered: bool = False


def steps_of(path: Sequence[PathStep]) -> list[str]:
    """Return the addresses of the nodes on the path to an object."""
    warehouse_id = next((step.id for step in path if step.kind == "warehouse"), None)
    return [_address(step.kind, step.id, warehouse_id) for step in path]


def _address(kind: str, object_id: object, warehouse_id: object) -> str:
    return f"{kind}:{object_id}" if kind in {"project", "warehouse"} else f"{kind}:{warehouse_id}:{object_id}"


@dataclass(frozen=True, slots=True)
class Address:
    """The node that a request names: its kind, its id, and the warehouse of an object in one."""

    kind: str
    object_id: str
    warehouse_id: UUID | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises `NotFound` for a text that is no address of a node."""
        kind, _, rest = text.partition(":")
        if kind == "project":
            return cls(kind, rest)
        first, _, last = rest.partition(":")
        warehouse_id, object_id = parse_id(first), parse_id(last)
        if kind == "warehouse" and warehouse_id is not None and not last:
            return cls(kind, str(warehouse_id), warehouse_id)
        if kind in {NAMESPACE, *Tabular.Kind.values} and warehouse_id is not None and object_id is not None:
            return cls(kind, str(object_id), warehouse_id)
        raise NotFound("No such node of the tree")


class Tree:
    """Reads levels of the tree on behalf of `actor`."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    def roots(self) -> Level:
        """Return the projects, or the warehouses of the only one."""
        projects = list_projects_for(actor=self._actor)
        if len(projects) == 1:
            return self._warehouses(projects[0], None)
        return Level(
            [
                _node(
                    "project", _address("project", each.pk, None), each.name, reverse("admin:project", args=[each.pk])
                )
                for each in sorted(projects, key=lambda each: (name_key(each.name), each.pk))
            ]
        )

    def level_below(self, address: Address, after: str | None, part_of_name: str | None = None) -> Level:
        """Return the nodes below a project, a warehouse or a namespace. Raises the errors of its selectors.

        With `part_of_name` those with this text in their names; the warehouses of a project have no such filter.
        """
        if address.kind == "project":
            return self._warehouses(get_visible_project_for(actor=self._actor, given=address.object_id), after)
        if address.warehouse_id is None:
            raise NotFound("No such node of the tree")
        children, token = list_children_for(
            actor=self._actor,
            warehouse_id=address.warehouse_id,
            namespace_id=UUID(address.object_id) if address.kind == NAMESPACE else None,
            page=_tree_page(after),
            part_of_name=part_of_name or "",
        )
        return _level(address, children, token, is_start=not after, part_of_name=part_of_name)

    def opened(self, path: Sequence[str], selected: str) -> Level:
        """Return the roots with the levels on the way to the node `selected`; `path` are the nodes above it."""
        root = self.roots()
        read = self._levels_on(path)
        level: Level | None = root
        for address in path:
            node = next((each for each in level.nodes if each.address == address), None) if level else None
            if node is None:
                if address.startswith("project:"):
                    continue  # the only project, which is no node
                break
            try:
                node.level = level = read.get(address) or self.level_below(Address.parse(address), None)
            except CatalogError:
                break
            node.is_open = True
        _select(root, selected)
        return root

    def _levels_on(self, path: Sequence[str]) -> dict[str, Level]:
        """Return by address the levels of the warehouse and the namespaces on a path, as far as they are read at once.

        The path has been located, so that the warehouse is active.
        """
        addresses = [Address.parse(each) for each in path]
        opened = [each for each in addresses if each.warehouse_id is not None]
        if not opened or opened[0].warehouse_id is None:
            return {}
        levels = read_open_levels_for(
            actor=self._actor,
            warehouse_id=opened[0].warehouse_id,
            namespace_ids=[UUID(each.object_id) for each in opened[1:]],
            page=_tree_page(None),
        )
        return {
            _address(each.kind, each.object_id, each.warehouse_id): _level(each, children, token)
            for each, (children, token) in zip(opened, levels or (), strict=False)
        }

    def _warehouses(self, project: Project, after: str | None) -> Level:
        page = ListingPage("tree warehouses", after, NODES_A_LEVEL)
        try:
            found, token = list_warehouses_for(
                actor=self._actor, project=project, statuses=[Warehouse.Status.ACTIVE], page=page
            )
        except Forbidden:
            return Level()
        if token is None and not after:  # the list of the APIs is in order of creation
            found = sorted(found, key=lambda each: each.name_key)
        nodes = [
            _node("warehouse", _address("warehouse", each.pk, None), each.name, object_url("warehouse", each.pk, None))
            for each in found
        ]
        return Level(nodes, _more_url(_address("project", project.pk, None), token))


def _tree_page(after: str | None) -> ListingPage:
    return ListingPage("tree", after, NODES_A_LEVEL)


def _level(
    address: Address,
    children: Sequence[Child],
    token: str | None,
    *,
    is_start: bool = True,
    part_of_name: str | None = None,
) -> Level:
    """Return a level below a warehouse or a namespace, or a part of it."""
    of_node = _address(address.kind, address.object_id, address.warehouse_id)
    is_filtered = part_of_name is not None
    return Level(
        _child_nodes(children, address.warehouse_id),
        _more_url(of_node, token, part_of_name),
        _level_url(reverse("admin:tree"), of_node) if token is not None and is_start and not is_filtered else None,
        is_filtered=is_filtered,
    )


def _node(kind: str, address: str, name: str, url: str) -> Node:
    return Node(kind, address, name, url, _level_url(reverse("admin:tree"), address))


def _level_url(tree_url: str, address: str) -> str:
    return f"{tree_url}?{urlencode({'node': address})}"


def _child_nodes(children: Sequence[Child], warehouse_id: UUID | None) -> list[Node]:
    """Return the nodes of the objects of a level. Addresses are resolved once for each kind, as a level has many."""
    tree_url = reverse("admin:tree")
    pages: dict[str, str] = {}
    nodes = []
    for each in children:
        if each.kind not in pages:
            pages[each.kind] = object_url(each.kind, _ANY_ID, warehouse_id)
        url = pages[each.kind].replace(str(_ANY_ID), str(each.id))
        address = _address(each.kind, each.id, warehouse_id)
        has_level = each.kind == NAMESPACE
        level_url = _level_url(tree_url, address) if has_level else ""
        nodes.append(Node(each.kind, address, each.name, url, level_url, has_level=has_level))
    return nodes


def _select(level: Level, address: str) -> None:
    for node in level.nodes:
        node.is_selected = node.address == address
        if node.level is not None:
            _select(node.level, address)


def _more_url(address: str, token: str | None, part_of_name: str | None = None) -> str | None:
    if token is None:
        return None
    filters = {} if part_of_name is None else {"q": part_of_name}
    return f"{reverse('admin:tree')}?{urlencode({'node': address, **filters, 'after': token})}"


class TreeFragment(Page):
    """One level of the tree below `node`, with `q` filtered by name, or the tree that is open down to `at`.

    A part of a page.
    """

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        tree = Tree(self.actor)
        if "node" in request.GET:
            part_of_name = self.query("q") if "q" in request.GET else None
            level = tree.level_below(Address.parse(request.GET["node"]), request.GET.get("after"), part_of_name)
            return render_page(request, "console/parts/tree_level.html", {"level": level})
        path, selected = self._path(request.GET.get("at", ""))
        return render_page(request, "console/parts/tree.html", {"level": tree.opened(path, selected)})

    def _path(self, at: str) -> tuple[list[str], str]:
        """Return the nodes to open, and the one to select."""
        if not at:
            return [], ""
        address = Address.parse(at)
        if address.warehouse_id is None:
            return [at], at
        if address.kind == "warehouse":
            warehouse = get_warehouse_for(
                actor=self.actor, action=Can.INCLUDE_IN_LIST, warehouse_id=address.warehouse_id
            )
            if warehouse.status != Warehouse.Status.ACTIVE:
                return steps_of(warehouse_path(warehouse, warehouse.project))[:-1], at  # nothing in it is shown
            return steps_of(warehouse_path(warehouse, warehouse.project)), at
        if address.kind == NAMESPACE:
            found = locate_namespace_for(
                actor=self.actor, warehouse_id=address.warehouse_id, namespace_id=UUID(address.object_id)
            )
            return [*steps_of(found.path), at], at
        located = locate_tabular_for(
            actor=self.actor,
            warehouse_id=address.warehouse_id,
            kind=Tabular.Kind(address.kind),
            uuid=UUID(address.object_id),
        )
        return steps_of(located.path), at


def tree_context(path: Sequence[PathStep], kind: str, object_id: object, name: str) -> dict[str, Any]:
    """Return what the templates need to show the tree next to the page of an object."""
    warehouse_id = next((step.id for step in path if step.kind == "warehouse"), None)
    at = _address(kind, object_id, warehouse_id)
    return {
        "tree_url": f"{reverse('admin:tree')}?{urlencode({'at': at})}",
        "tree_path": [*path, PathStep(kind, str(object_id), name)],
    }


class CatalogPage(Page):
    """The projects and warehouses from which the catalog is browsed."""

    template_name = "console/catalog.html"
    section = "catalog"
    title = _("Catalog")

    def context(self) -> dict[str, Any]:
        found = list_warehouses_by_project(self.actor)
        return {
            "tree_url": reverse("admin:tree"),
            "projects": found.projects,
            "has_more": found.has_more,
            "user_id": self.actor.user_id,
        }
