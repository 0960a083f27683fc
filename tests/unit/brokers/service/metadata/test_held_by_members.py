"""Who is told of a change, again and for how long."""

from brokers.clock import Clock
from brokers.remoting.calls import ConnectFailed
from brokers.remoting.command import RemotingCommand
from brokers.replica.effects import RoleChanged
from brokers.service.metadata.held_by_members import Ask, HeldByMembers
from brokers.service.role.role_view import RoleView


class Around:
    """A master of epoch 3; what its members do is the test's."""

    def __init__(self) -> None:
        self.roles, self.members = RoleView(), {2: "h:2", 3: "h:3"}
        self.roles.changed(RoleChanged("MASTER", 3, 1, "h:1", (1, 2, 3), 3))
        self.held = HeldByMembers(self.roles, self, Clock(), lambda: self.members)  # type: ignore[arg-type]
        self.calls: list[str] = []
        self.refusing: dict[str, int] = {}

    async def call(
        self, address: str, request: RemotingCommand, _timeout_ms: int
    ) -> RemotingCommand:
        self.calls.append(address)
        left = self.refusing.get(address, 0)
        if left:
            self.refusing[address] = left - 1
            raise ConnectFailed("refused")
        return request.reply()

    async def until_held(self) -> bool:
        async def tell(ask: Ask, epoch: int) -> bool:
            return (await ask(RemotingCommand.request(19013, {"epoch": str(epoch)}))).code == 0

        return await self.held.until_held(tell)


async def test_who_took_it_is_not_told_again_and_who_did_not_is() -> None:
    around = Around()
    around.refusing = {"h:3": 2}
    assert await around.until_held()
    assert sorted(around.calls) == ["h:2", "h:3", "h:3", "h:3"]


async def test_a_member_that_left_is_not_waited_for() -> None:
    around = Around()
    around.refusing = {"h:3": 10**6}
    members, reads = around.members, []

    def read() -> dict[int, str]:
        reads.append(1)
        return members if len(reads) < 3 else {2: "h:2"}

    around.held = HeldByMembers(around.roles, around, Clock(), read)  # type: ignore[arg-type]
    assert await around.until_held()


async def test_a_lost_role_ends_the_telling() -> None:
    around = Around()
    around.roles.changed(RoleChanged("SLAVE", 4, 2, "h:2", (1, 2, 3), 4))
    assert not await around.until_held() and around.calls == []
