"""A request goes to the handler of its code."""

from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.dispatcher import Dispatcher, not_supported


def answer(remark):
    return lambda connection, request: request.reply(remark=remark)


def test_each_code_has_its_handler_and_a_later_one_replaces_it():
    dispatch = Dispatcher({RequestCode.PULL_MESSAGE: answer("pull"), 34: answer("heartbeat")})
    dispatch.register(34, answer("other"))
    assert dispatch(None, RemotingCommand(11)).remark == "pull"
    assert dispatch(None, RemotingCommand(34)).remark == "other"


def test_what_was_cleared_is_taken_by_one_handler_until_there_are_others_again():
    dispatch = Dispatcher({11: answer("pull")})
    dispatch.clear(answer("opening"))
    assert dispatch(None, RemotingCommand(11)).remark == "opening"
    assert not dispatch.express
    dispatch.register(11, answer("pull again"))
    assert dispatch(None, RemotingCommand(11)).remark == "pull again"


def test_a_code_without_a_handler_is_answered_with_3_and_its_number():
    for response in (
        Dispatcher()(None, RemotingCommand(9999, 5)),
        not_supported(None, RemotingCommand(9999, 5)),
    ):
        assert (response.code, response.opaque, response.remark) == (
            3,
            5,
            " request type 9999 not supported",
        )
