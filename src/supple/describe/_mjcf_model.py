"""One MJCF model as its file gives it: sections, default classes, and elements to attach."""

from __future__ import annotations

from functools import cached_property
from xml.etree.ElementTree import Element

from supple.describe._include import Document
from supple.describe._mjcf_geoms import Assets
from supple.describe._mjcf_values import MAIN, Values, compiler_of, defaults_of
from supple.errors import DescriptionError, short_repr, unknown_name_error

_SECTIONS = ("compiler", "default", "worldbody", "equality")
_OTHER_SECTIONS = """
    option size visual statistic custom extension asset contact deformable tendon actuator sensor
    keyframe"""


class MjcfModel:
    """The sections of a document that contain kinematics."""

    def __init__(self, document: Document) -> None:
        root = document.root
        if root.tag != "mujoco":
            given = f"given <{short_repr(root.tag)[1:-1]}>"
            raise DescriptionError(
                f"an attached model must be MJCF with the root <mujoco>; {given}."
            )
        known = (*_SECTIONS, *_OTHER_SECTIONS.split())
        for section in root:
            if section.tag not in known:
                raise DescriptionError(f"{unknown_name_error('element', section.tag, known)}")
        self.document = document
        self.compiler = compiler_of(root.findall("compiler"))
        self.defaults = defaults_of(root.findall("default"))
        self.world = root.findall("worldbody")
        self.equalities = [each for part in root.findall("equality") for each in part]
        self.exclusions = [
            each for part in root.findall("contact") for each in part.findall("exclude")
        ]
        meshes = {name: tags["mesh"] for name, tags in self.defaults.items()}
        self.assets = Assets.of(root, meshes, document.folder)
        self._models: dict[str, MjcfModel] = {}
        if any(section.attrib for section in self.world):
            raise DescriptionError("<worldbody> has attributes; expected none.")

    def attached(self, name: str) -> MjcfModel:
        """Return the model with the name in an <attach>, or this model if the name is empty."""
        if not name:
            return self
        if name not in self._models:
            if name not in self.document.models:
                problem = unknown_name_error("model", name, self.document.models)
                raise DescriptionError(f"<attach>: {problem}")
            self._models[name] = MjcfModel(self.document.models[name])
        return self._models[name]

    def find(self, tag: str, name: str) -> tuple[Element, str]:
        """Return a body or frame by name, and the default class that applies to it."""
        if (tag, name) not in self._found:
            raise DescriptionError(f"<attach>: the model has no {tag} {short_repr(name)}.")
        return self._found[tag, name]

    @cached_property
    def _found(self) -> dict[tuple[str, str], tuple[Element, str]]:
        """All elements that can be attached, by tag and name; of equal names, the first."""
        found: dict[tuple[str, str], tuple[Element, str]] = {}
        todo = [(child, MAIN) for section in reversed(self.world) for child in reversed(section)]
        while todo:
            element, around = todo.pop()
            found.setdefault((element.tag, element.get("name", "")), (element, around))
            around = element.get("childclass") or around
            todo.extend((child, around) for child in reversed(element))
        return found

    def values(self, element: Element, childclass: str) -> Values:
        """Return the attributes of a joint or a site, with those of its default class."""
        name = element.get("class") or childclass
        return Values(element, defaults=self.of_class(name)[element.tag])

    def of_class(self, name: str) -> dict[str, dict[str, str]]:
        if name not in self.defaults:
            raise DescriptionError(f"{unknown_name_error('default class', name, self.defaults)}")
        return self.defaults[name]
