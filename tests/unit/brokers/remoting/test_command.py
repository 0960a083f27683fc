"""What a command says about itself, and how a response is made from its request."""

from brokers.remoting.command import RemotingCommand


def test_a_reply_carries_the_opaque_of_its_request_and_is_a_response():
    request = RemotingCommand.request(105, {"topic": "T"})
    request.opaque = 77
    response = request.reply(17, remark="no route")
    assert (response.opaque, response.code, response.remark) == (77, 17, "no route")
    assert response.is_response and not response.is_oneway


def test_a_reply_to_a_binary_request_is_written_in_json():
    assert RemotingCommand(14, serialization=1).reply().serialization == 0


def test_a_oneway_request_says_so():
    assert RemotingCommand.request(904, oneway=True).is_oneway
    assert not RemotingCommand.request(904).is_oneway


def test_two_requests_without_fields_do_not_share_them():
    first, second = RemotingCommand.request(10), RemotingCommand.request(10)
    first.ext["a"] = "b"
    assert second.ext == {}
