"""A chat model's requests, its errors and its silence about the key, against a real server."""

import copy
import logging
import pickle
import socket
import subprocess
import sys
import time
import traceback

import pytest
from chat_server import ChatServer, completion, refuse, say, sleep

from causalrag.chat import ChatError, ChatModel

KEY = "sk-very-secret-123456"
ASK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "数据 out?"}]


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture
def server():
    def answer(body):
        return f"{body['model']} read {len(body['messages'])}: {body['messages'][-1]['content']}"

    with ChatServer(answer) as running:
        yield running


def failure(chat, messages=ASK):
    with pytest.raises(ChatError) as caught:
        chat.complete(messages)
    return caught.value


def test_the_answer_is_made_from_what_was_sent(server):
    assert ChatModel("tiny", server.url).complete(ASK) == "tiny read 2: 数据 out?"
    ((path, _, body),) = server.seen
    assert path == "/v1/chat/completions"
    assert body == {"model": "tiny", "messages": ASK, "temperature": 0, "seed": 0}


def test_json_is_asked_for_only_on_demand(server):
    ChatModel("tiny", server.url).complete(ASK, json=True)
    assert server.seen[0][2]["response_format"] == {"type": "json_object"}


def test_temperature_and_seed_can_be_left_to_the_server(server):
    ChatModel("tiny", server.url, temperature=None, seed=None).complete(ASK)
    ChatModel("tiny", server.url, temperature=0.7, seed=5).complete(ASK)
    assert server.seen[0][2] == {"model": "tiny", "messages": ASK}
    assert (server.seen[1][2]["temperature"], server.seen[1][2]["seed"]) == (0.7, 5)


def test_a_slash_at_the_end_of_the_address_does_not_matter(server):
    chat = ChatModel("tiny", f" {server.url}/ ")
    assert chat.base_url == server.url
    assert chat.complete(ASK)


def test_the_callers_messages_are_not_changed_and_lone_surrogates_do_not_break(server):
    messages = [{"role": "user", "content": "a \ud83d b"}]
    kept = copy.deepcopy(messages)
    assert ChatModel("tiny", server.url).complete(messages).endswith("a ? b")
    assert messages == kept


# --- the key ----------------------------------------------------------------------------------


def test_a_local_server_needs_no_key(server):
    ChatModel("tiny", server.url).complete(ASK)
    assert server.seen[0][1]["Authorization"] == "Bearer none"


def test_the_key_comes_from_the_argument_or_else_from_the_environment(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")
    ChatModel("tiny", server.url).complete(ASK)
    ChatModel("tiny", server.url, api_key="other").complete(ASK)
    ChatModel("tiny", server.url, api_key="").complete(ASK)
    sent = [headers["Authorization"] for _, headers, _ in server.seen]
    assert sent == [f"Bearer {KEY}", "Bearer other", "Bearer none"]


# 262 characters more, and the place where a long answer is cut lies inside the key.
@pytest.mark.parametrize("more", ["", "x" * 262])
@pytest.mark.parametrize("status", [401, 404, 500])
def test_the_key_is_in_no_error_and_no_log_even_if_the_server_repeats_it(
    server, status, more, caplog
):
    caplog.set_level(logging.DEBUG)
    server.faults = [refuse(status, f"bad key {more} {KEY}")]
    chat = ChatModel("tiny", server.url, api_key=KEY, max_retries=0)
    error = failure(chat)
    assert error.__cause__ is None
    assert error.__context__ is None
    shown = "".join(traceback.format_exception(error))
    for text in (shown, repr(error), repr(chat), str(chat), caplog.text):
        assert KEY not in text
        assert KEY[:8] not in text
    assert caplog.records  # the client did log


def test_a_chat_model_is_not_pickled_or_copied_because_of_its_key():
    chat = ChatModel("tiny", "http://127.0.0.1:1/v1", api_key=KEY)
    for act in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="key") as caught:
            act(chat)
        assert KEY not in str(caught.value)


@pytest.mark.parametrize("key", [f"{KEY} x", f"{KEY}中", f"a\n{KEY}"])
def test_a_key_that_no_header_can_carry_is_refused_unseen(key):
    with pytest.raises(ValueError, match="api_key") as caught:
        ChatModel("tiny", "http://127.0.0.1:1/v1", api_key=key)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("part", [f"user:{KEY}@", f"{KEY}@"])
def test_a_password_in_the_address_is_refused_unseen(part):
    for address in (f"http://{part}127.0.0.1/v1", f"http://127.0.0.1/v1?key={KEY}"):
        with pytest.raises(ValueError, match="must not hold a user") as caught:
            ChatModel("tiny", address)
        assert KEY not in str(caught.value)


# --- errors -----------------------------------------------------------------------------------


def test_an_error_500_is_tried_again(server):
    server.faults = [refuse(500), refuse(503)]
    assert ChatModel("tiny", server.url).complete(ASK) == "tiny read 2: 数据 out?"
    assert len(server.seen) == 3
    assert server.seen[0][2] == server.seen[2][2]


def test_retries_end(server):
    server.faults = [refuse(500, "out of memory")] * 5
    error = failure(ChatModel("tiny", server.url, max_retries=1))
    assert len(server.seen) == 2
    for part in (server.url, "'tiny'", "status 500", "out of memory", "server's log"):
        assert part in str(error)


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        (400, "may not know the model, JSON answers"),
        (401, "wants a key: pass api_key or set OPENAI_API_KEY"),
        (403, "no right to this model"),
        (404, "check the model's name, and that base_url"),
        (413, "too long for the server"),
        (418, "look at the server's log"),
    ],
)
def test_a_refusal_names_the_address_the_status_and_the_remedy(server, status, remedy):
    server.faults = [refuse(status, "because")]
    error = failure(ChatModel("tiny", server.url))
    assert len(server.seen) == 1
    for part in (server.url, f"status {status}", "because", remedy):
        assert part in str(error)


def test_a_refused_key_is_told_from_a_missing_one(server):
    server.faults = [refuse(401)]
    assert "refuses the key: pass another" in str(failure(ChatModel("tiny", server.url, KEY)))


def test_a_rate_limit_is_tried_again_and_then_named(server):
    server.faults = [refuse(429)] * 2
    assert "raise max_retries" in str(failure(ChatModel("tiny", server.url, max_retries=1)))
    assert len(server.seen) == 2


def test_the_wrong_start_of_the_api_is_a_404_with_its_remedy(server):
    error = failure(ChatModel("tiny", server.url.removesuffix("/v1")))
    assert "mostly /v1" in str(error)


def test_a_slow_answer_ends_at_the_timeout(server):
    server.faults = [sleep(1.0)]
    started = time.perf_counter()
    error = failure(ChatModel("tiny", server.url, timeout=0.2, max_retries=0))
    assert time.perf_counter() - started < 0.9
    for part in (server.url, "within 0.2 s (1 requests)", "raise timeout"):
        assert part in str(error)


def test_a_slow_answer_is_tried_again(server):
    server.faults = [sleep(0.6)]
    assert ChatModel("tiny", server.url, timeout=0.3, max_retries=1).complete(ASK)
    assert len(server.seen) == 2


def test_a_server_that_is_not_there_is_named():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    error = failure(ChatModel("tiny", url, max_retries=0))
    for part in (url, "is not reachable", "refused", "start the server"):
        assert part in str(error)


@pytest.mark.parametrize("content", ["", " \n", None])
def test_an_empty_answer_is_an_error(server, content):
    server.faults = [say(completion("tiny", content, "length"))]
    error = failure(ChatModel("tiny", server.url))
    for part in (server.url, "empty answer", "'length'"):
        assert part in str(error)


@pytest.mark.parametrize(
    "fault",
    [
        say({"hello": 1}),
        say({"choices": []}),
        say({"choices": [{}]}),
        say({"choices": "abc"}),
        say({"choices": {"message": "abc"}}),
        say([1, 2]),
        say("null"),
        say('{"choices": [{"mess'),
        say("<html>Welcome</html>", "text/html"),
        say("<html>Welcome</html>"),
        say(""),
    ],
)
def test_an_answer_by_another_protocol_is_an_error(server, fault):
    server.faults = [fault]
    error = failure(ChatModel("tiny", server.url))
    for part in (server.url, "chat-completions protocol", "mostly /v1"):
        assert part in str(error)


def test_a_missing_package_gives_the_install_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ImportError) as caught:
        ChatModel("tiny", "http://127.0.0.1:1/v1")
    assert 'pip install "causalrag[llm]"' in str(caught.value)


def test_the_package_is_loaded_when_a_model_is_made_and_not_before():
    code = "import sys, causalrag.chat, causalrag.keywords; print('openai' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("False\n", "")


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"model": ""}, ValueError, "name of a model, got ''"),
        ({"model": None}, TypeError, "name of a model, got None"),
        ({"base_url": None}, TypeError, "must be a string"),
        ({"base_url": "127.0.0.1:80/v1"}, ValueError, "is no http address; give an address such"),
        ({"base_url": "ftp://a/v1"}, ValueError, "'ftp://a/v1' is no http address"),
        ({"base_url": "http://"}, ValueError, "is no http address"),
        ({"base_url": "http://a:port/v1"}, ValueError, "is no address"),
        ({"base_url": "http://a/v1/chat/completions"}, ValueError, "must end before"),
        ({"api_key": 3}, TypeError, "api_key must be a string, got int"),
        ({"timeout": 0}, ValueError, "timeout is 0; give a finite number above 0"),
        ({"timeout": float("nan")}, ValueError, "timeout is nan"),
        ({"timeout": None}, TypeError, "timeout must be a number, got None"),
        ({"temperature": float("inf")}, ValueError, "temperature is inf"),
        ({"max_retries": -1}, ValueError, "max_retries is -1; give 0 or more"),
        ({"max_retries": 1.5}, TypeError, "max_retries must be an integer, got 1.5"),
    ],
)
def test_an_unusable_argument_is_named(change, kind, message):
    arguments = {"model": "tiny", "base_url": "http://127.0.0.1:1/v1", **change}
    with pytest.raises(kind, match=message.replace("(", r"\(")):
        ChatModel(**arguments)


@pytest.mark.parametrize(
    ("messages", "kind"),
    [
        ("hello", TypeError),
        ({"role": "user", "content": "x"}, TypeError),
        (None, TypeError),
        (["hello"], TypeError),
        ([{"role": "user", "content": None}], TypeError),
        ([{"role": "user"}], TypeError),
        ([], ValueError),
        ([{"role": "robot", "content": "x"}], ValueError),
        ([{"content": "x"}], ValueError),
    ],
)
def test_an_unusable_message_is_refused_before_anything_is_sent(server, messages, kind):
    with pytest.raises(kind):
        ChatModel("tiny", server.url).complete(messages)
    assert server.seen == []


def test_repr_names_model_and_address():
    chat = ChatModel("tiny", "http://127.0.0.1:1/v1")
    assert repr(chat) == "<ChatModel 'tiny' at http://127.0.0.1:1/v1>"
