"""Two tasks with new quantities, added to a copy of the sources as CONTRIBUTING.md says."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from task_places import COPIES, EXAMPLES, FORMULAS, FUNCTIONS, PUBLIC, PYTHON, TRAITS

ROOT = Path(__file__).parents[2]
SOURCES = Path(__file__).parent / "recipe"  # the files of the new tasks
NEW = {"point_distance": "PointDistanceTask", "spread": "SpreadTask"}


class Addition(NamedTuple):
    """A text that the recipe adds.

    Attributes:
        file: The file.
        before: The text before which it is inserted; for a function, the beginning of its
            signature, and the text is inserted at the beginning of its body.
        text: The text.
        missing: The text that the tests report if the addition is missing.
    """

    file: str
    before: str
    text: str
    missing: str


# The C++ code that the recipe inserts into the functions of task.hpp, by goal and function.
BRANCHES = {
    "point_distance": {
        "jacobian": """    for (int i = 0; i < chain.nv; ++i) J[i] = L(0);
    const Span<L> span = span_of<L>(chain, task, joint_poses);
    const auto add = [&](int k, T sign) {
      const Frame<T>& frame = chain.frame[task.point[k]];
      const Vec3<L> p = point_position(frame, joint_poses);
      jacobian(chain, frame, joint_poses, p, [&](int column, const Twist<L>& twist, bool) {
        J[column] = fma(dot(span.along, twist.v), L(sign * task.weight[0]), J[column]);
      });
    };
    add(0, T(1));
    add(1, T(-1));
    return;
""",
        "offset": """    const L length = span_of<L>(chain, task, joint_poses).length;
    e[0] = (target[0] - length) * L(task.weight[0]);
    return;
""",
        "reached": """    target[0] = span_of<L>(chain, task, joint_poses).length;
    return;
""",
        "bias_acceleration": """    const Span<L> span = span_of<L>(chain, task, joint_poses);
    const auto rate = [&](int k) {
      const Frame<T>& frame = chain.frame[task.point[k]];
      return rates(chain, frame, joint_poses, point_position(frame, joint_poses), qd);
    };
    const Rates<L> one = rate(0), other = rate(1);
    const Vec3<L> v = one.v - other.v;
    const L toward = dot(span.along, v), across = dot(v, v) - toward * toward;
    const mask_t<L> apart = span.length > L(0);
    const L bends = select(apart, across / select(apart, span.length, L(1)), L(0));
    bias_acceleration[0] = (dot(span.along, one.a - other.a) + bends) * L(task.weight[0]);
    return;
""",
        "command": """    rows[0] = velocity[0] * L(task.weight[0]);
    return;
""",
    },
    "spread": {
        "jacobian": """    for (int i = 0; i < chain.nv; ++i) J[i] = L(0);
    const TaskPoses<L> at = task_poses(chain, task, joint_poses);
    const Vec3<L> away = at.frame.p - at.base.p;
    const auto add = [&](const Frame<T>& frame, const Vec3<L>& p, T sign) {
      jacobian(chain, frame, joint_poses, p, [&](int column, const Twist<L>& twist, bool) {
        J[column] = fma(dot(away, twist.v), L(sign * task.weight[0]), J[column]);
      });
    };
    add(chain.frame[task.frame], at.frame.p, T(1));
    if (at.moved) add(chain.frame[task.base], at.base.p, T(-1));
    return;
""",
        "offset": """    const TaskPoses<L> at = task_poses(chain, task, joint_poses);
    const Vec3<L> away = at.frame.p - at.base.p;
    e[0] = (target[0] - dot(away, away) * L(0.5)) * L(task.weight[0]);
    return;
""",
        "reached": """    const TaskPoses<L> at = task_poses(chain, task, joint_poses);
    const Vec3<L> away = at.frame.p - at.base.p;
    target[0] = dot(away, away) * L(0.5);
    return;
""",
        "bias_acceleration": """    const TaskPoses<L> at = task_poses(chain, task, joint_poses);
    Rates<L> rate = rates(chain, chain.frame[task.frame], joint_poses, at.frame.p, qd);
    if (at.moved) {
      const Rates<L> base = rates(chain, chain.frame[task.base], joint_poses, at.base.p, qd);
      rate.v = rate.v - base.v;
      rate.a = rate.a - base.a;
    }
    const L bends = dot(at.frame.p - at.base.p, rate.a) + dot(rate.v, rate.v);
    bias_acceleration[0] = bends * L(task.weight[0]);
    return;
""",
        "command": """    rows[0] = velocity[0] * L(task.weight[0]);
    return;
""",
    },
}
SPAN = """// The way from the second point of a task to the first: a unit vector, and the length.
template <class L>
struct Span {
  Vec3<L> along;
  L length;
};
template <class L, class T>
SUPPLE_FN Span<L> span_of(const Chain<T>& chain, const Task<T>& task, const Pose<L>* joint_poses) {
  const Vec3<L> away = point_position(chain.frame[task.point[0]], joint_poses) -
                       point_position(chain.frame[task.point[1]], joint_poses);
  const L length = sqrt(dot(away, away));
  const mask_t<L> apart = length > L(0);
  return {away * (select(apart, L(1), L(0)) / select(apart, length, L(1))), length};
}

"""


def additions(goal: str) -> dict[str, Addition]:
    """Return the additions of the recipe for a goal, by place, without the new Python file."""
    task = NEW[goal]
    traits = {
        "point_distance": f'{{.name = "{goal}", .target = Target::numbers}}',
        "spread": f'{{.name = "{goal}", .target_size = 1, .velocity_size = 1, .has_frame = true}}',
    }[goal]
    values = {
        "point_distance": f"{task}(str(rng.choice(frames)), (9.0, 8.0, 7.0))",
        "spread": f"{task}(str(rng.choice(frames)), base)",
    }[goal]
    example = f"Some({values}, rng.random(1), v[:1]),"
    imports = f"from supple.tasks.{goal} import {task}\n"
    copy = {"point_distance": f'{task}("a", (1.0, 2.0, 3.0)),', "spread": f'{task}("a", "b"),'}[
        goal
    ]
    return {
        name: Addition(*each)
        for name, each in {
            "import": (PUBLIC, "from supple.tasks.posture import", imports, ""),
            "public": (
                PUBLIC,
                '"OpenTask", ',
                f'"{task}", ',
                f"__all__ lacks {task}",
            ),
            "import of the example": (EXAMPLES, "from trees import", imports, ""),
            "example": (
                EXAMPLES,
                "        *(Some(CenterOfMassTask(",
                f"        {example}\n",
                f"some_tasks lacks {task}",
            ),
            "target of the example": (
                EXAMPLES,
                "    T = robot.fk(q, task.frame)\n",
                f"    if isinstance(task, {task}):\n"
                "        return task.on(robot).reached(robot, q)\n",
                "",
            ),
            "import of the copy": (COPIES, "from supple.gpu.runtime", imports, ""),
            "copy": (COPIES, "    sp.AxisTask(", f"    {copy}\n", f"EXAMPLES lacks {task}"),
            "goal": (
                TRAITS,
                "  posture,  // ",
                f"  {goal},  // two frames\n",
                f"Goal lacks {goal}",
            ),
            "traits": (
                TRAITS,
                "    case Goal::posture:\n",
                f"    case Goal::{goal}:\n      return {traits};\n",
                f"traits_of lacks {goal}",
            ),
        }.items()
    } | {
        name: Addition(
            FORMULAS,
            f"task_{name}(const Chain",
            f"  if (task.goal == Goal::{goal}) {{\n{BRANCHES[goal][name]}  }}\n",
            f"task_{name} lacks {goal}",
        )
        for name in FUNCTIONS
    }


def add_to(folder: Path, goal: str, left_out: str | None = None) -> None:
    """Add a goal to the copy of the sources in `folder`, but not the addition `left_out`."""
    shutil.copy(SOURCES / f"{goal}.py", folder / PYTHON / f"{goal}.py")
    for name, (file, before, added, _) in additions(goal).items():
        path = folder / file
        if name == left_out or not path.exists():
            continue
        text = path.read_text(encoding="utf-8")
        assert before in text, f"{file} has changed: adapt task_recipe.py"
        if name in FUNCTIONS:
            head, _, rest = text.partition(before)
            signature, _, body = rest.partition(") {\n")
            text = f"{head}{before}{signature}) {{\n{added}{body}"
        else:
            text = text.replace(before, added + before, 1)
        path.write_text(text, encoding="utf-8")
    path = folder / FORMULAS
    if goal == "point_distance" and path.exists():
        text, mark = path.read_text(encoding="utf-8"), "// Computes the weighted J (rows, coord"
        assert mark in text, f"{FORMULAS} has changed: adapt task_recipe.py"
        path.write_text(text.replace(mark, SPAN + mark, 1), encoding="utf-8")
