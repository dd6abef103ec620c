"""Routes of sign-in and sign-out, below /ui. Paths for identity providers are those that Lakekeeper registers there."""

from __future__ import annotations

from django.conf import settings
from django.urls import path

from management.sign_in import views
from management.sign_in.oidc import BeginView, CallbackView

app_name = "sign_in"

_UI = settings.ICEKEEPER.ui

urlpatterns = [
    path("sign-in/", views.show_sign_in, name="page"),
    path("sign-in/with/<str:provider_id>/", BeginView.as_view(), name="provider"),
    path("sign-in/token/", views.sign_in_with_token, name="token"),
    path("sign-in/password/", views.sign_in_with_password, name="password"),
    path("sign-in/once/", views.sign_in_once, name="once"),
    path("sign-out/", views.sign_out_here, name="sign_out"),
    path(_UI.openid_redirect_path.lstrip("/"), CallbackView.as_view(), name="callback"),
    path(_UI.openid_post_logout_redirect_path.lstrip("/"), views.show_signed_out, name="signed_out"),
]
